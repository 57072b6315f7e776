"""Tests {{name}} as the daemon sees it: `python3 -m unittest` in this folder."""

import json
import pathlib
import subprocess
import sys
import unittest


def ask(message):
    """What the program says to a message."""
    program = pathlib.Path(__file__).with_name("main.py")
    done = subprocess.run([sys.executable, program], input=json.dumps(message) + "\n", stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Greeting(unittest.TestCase):
    def test_people_are_greeted_by_name(self):
        metadata = {"id": "q1", "timestamp": 0}
        [reply] = ask({"kind": "query", "type": "{{Type}}.Greet", "data": {"name": "Ada"}, "metadata": metadata})
        self.assertEqual((reply["kind"], reply["data"]), ("reply", {"text": "Hello, Ada!"}))
        self.assertEqual(reply["metadata"]["causation"], "q1")


if __name__ == "__main__":
    unittest.main()
