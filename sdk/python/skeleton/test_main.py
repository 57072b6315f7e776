"""Tests {{name}} without a daemon: `python3 -m unittest` in this folder."""

import unittest

from mainspring import CapabilityError, SchemaError
from mainspring.testing import Harness

from main import cap, greeted


class Greeting(unittest.TestCase):
    def setUp(self) -> None:
        greeted.clear()
        self.loop = self.enterContext(Harness(cap)) if hasattr(self, "enterContext") else Harness(cap)

    def test_people_are_greeted_by_name_and_it_is_told(self) -> None:
        self.assertEqual(self.loop.send("{{Type}}.Greet", {"name": "Ada"}), {"text": "Hello, Ada!"})
        self.assertEqual([event.data for event in self.loop.events], [{"name": "Ada", "times": 1}])
        self.assertEqual(self.loop.query("{{Type}}.Times", {"name": "Ada"}), {"name": "Ada", "times": 1})

    def test_who_was_never_greeted_is_404(self) -> None:
        with self.assertRaises(CapabilityError) as caught:
            self.loop.query("{{Type}}.Times", {"name": "Bob"})
        self.assertEqual(caught.exception.code, 404)

    def test_nobody_is_refused(self) -> None:
        with self.assertRaises(SchemaError):
            self.loop.send("{{Type}}.Greet", {"name": ""})


if __name__ == "__main__":
    unittest.main()
