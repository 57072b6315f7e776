"""`python -m mainspring`: manifests of capabilities, and running them."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import sys
from typing import Any

from ._serve.streams import Streams
from .capability import Capability
from .errors import SchemaProblem


def main(arguments: list[str] | None = None) -> int:
    """Does what the command line says, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mainspring", description="Capabilities of Mainspring in Python.")
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("manifest", help="print the manifest of a capability as JSON")
    write.add_argument("capability", metavar="MODULE:NAME", help="where the capability is, such as notes:capability")
    write.add_argument("--check", metavar="FILE", help="print nothing; exit with 1 if FILE is not up to date")
    write.add_argument("--out", metavar="FILE", help="write FILE instead of printing")
    write.add_argument("--python", metavar="PROGRAM", help="the interpreter that the manifest names")
    run = commands.add_parser("run", help="run a capability on standard input and output")
    run.add_argument("capability", metavar="MODULE:NAME", help="where the capability is")
    options = parser.parse_args(arguments)
    try:
        if options.command == "run":
            # Before anything of the module runs: it may print.
            with Streams.reserve() as streams:
                load(options.capability).serve(streams)
            return 0
        return _manifest(load(options.capability), options)
    except SchemaProblem as problem:
        print(f"mainspring: {problem}", file=sys.stderr)
        return 1


def load(place: str) -> Capability:
    """The capability that `module:name` leads to.

    Raises:
        SchemaProblem: There is none.
    """
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise SchemaProblem(
            f"{place!r} does not say where the capability is; write MODULE:NAME, such as notes:capability"
        )
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0]:
            raise
        raise SchemaProblem(f"there is no module {module_name!r} in {os.getcwd()}") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise SchemaProblem(f"the module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    if not isinstance(found, Capability):
        raise SchemaProblem(f"{place} is a {type(found).__name__}, not a Capability")
    return found


def _manifest(capability: Capability, options: argparse.Namespace) -> int:
    program = [options.python or _interpreter(), "-m", "mainspring", "run", options.capability]
    made = capability.manifest(program)
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    if options.check:
        try:
            is_same = json.loads(pathlib.Path(options.check).read_text("utf-8")) == made
        except (OSError, ValueError) as error:
            print(f"mainspring: {options.check}: {error}", file=sys.stderr)
            return 1
        if not is_same:
            again = f"python -m mainspring manifest {options.capability} --out {options.check}"
            print(f"mainspring: {options.check} is not up to date; write it again: {again}", file=sys.stderr)
        return 0 if is_same else 1
    if options.out:
        pathlib.Path(options.out).write_text(text, "utf-8")
    else:
        sys.stdout.write(text)
    return 0


def _interpreter() -> str:
    """How the manifest names the interpreter: that of a virtual environment beside it, else `python3`."""
    here = pathlib.Path.cwd()
    prefix = pathlib.Path(sys.prefix)
    if sys.prefix != sys.base_prefix and prefix.is_relative_to(here):
        return str(prefix.relative_to(here) / "bin" / "python")
    return "python3"


if __name__ == "__main__":
    sys.exit(main())
