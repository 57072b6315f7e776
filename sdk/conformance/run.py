#!/usr/bin/env python3
"""Drives the conformance programs of an SDK against the real daemon. See README.md beside this file."""

import argparse
import os
import shlex
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from suite import cases  # noqa: E402
from suite.runner import Programs, Runner  # noqa: E402


def words(text: str) -> list[str]:
    """A command line as a list, with the files of this folder as absolute paths."""
    found = shlex.split(text)
    return [os.path.abspath(word) if os.sep in word and os.path.exists(word) else word for word in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--daemon", default=os.environ.get("MAINSPRING", "mainspring"), help="the daemon's program")
    parser.add_argument("--name", default="sdk", help="what the SDK is called in the output")
    parser.add_argument("--capability", type=words, help="command line of the conformance capability")
    parser.add_argument("--client", type=words, help="command line of the conformance client")
    parser.add_argument("--transport", choices=["unix", "tcp"], help="run one transport alone")
    parser.add_argument("--only", metavar="TEXT", help="run the cases whose name contains the text")
    parser.add_argument("--jobs", type=int, default=3, help="cases at a time (3)")
    parser.add_argument("--keep", action="store_true", help="keep the folder of each case")
    parser.add_argument("--list", action="store_true", help="list the cases")
    arguments = parser.parse_args()
    chosen = [case for case in cases.ALL if arguments.only is None or arguments.only in case.name]
    if arguments.list:
        for case in chosen:
            print(case.name)
        return 0
    if arguments.capability is None or arguments.client is None:
        parser.error("--capability and --client are needed")
    daemon = os.path.abspath(arguments.daemon) if os.sep in arguments.daemon else arguments.daemon
    programs = Programs(arguments.name, daemon, arguments.capability, arguments.client)
    transports = [arguments.transport] if arguments.transport else ["unix", "tcp"]
    return Runner(programs, transports, arguments.keep, arguments.jobs).run(chosen)


if __name__ == "__main__":
    sys.exit(main())
