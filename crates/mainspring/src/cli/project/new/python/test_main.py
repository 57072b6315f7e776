"""Tests {{name}} as the daemon sees it: `python3 -m unittest` in this folder."""

import json
import pathlib
import subprocess
import sys
import unittest


def ask(kind, type_name, data):
    """What the program says to a request."""
    program = pathlib.Path(__file__).with_name("main.py")
    message = {"kind": kind, "type": type_name, "data": data, "metadata": {"id": "q1", "timestamp": 0}}
    done = subprocess.run(
        [sys.executable, program], input=json.dumps(message) + "\n", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(message["metadata"]["causation"] == "q1" for message in said)
    return [(message["kind"], message["type"], message["data"]) for message in said]


class Greeting(unittest.TestCase):
    def test_people_are_greeted_by_name(self):
        self.assertEqual(
            ask("query", "{{Type}}.Greet", {"name": "Ada"}),
            [("reply", "{{Type}}.Greet", {"text": "Hello, Ada!"})],
        )

    def test_who_was_met_is_told_and_counted(self):
        self.assertEqual(
            ask("command", "{{Type}}.Meet", {"name": "Ada"}),
            [("event", "{{Type}}.Met", {"name": "Ada", "met": 1}), ("reply", "{{Type}}.Meet", {"met": 1})],
        )

    def test_what_is_not_known_is_an_error(self):
        [(kind, type_name, data)] = ask("query", "{{Type}}.Unknown", {})
        self.assertEqual((kind, type_name, data["code"]), ("error", "{{Type}}.Unknown", 404))


if __name__ == "__main__":
    unittest.main()
