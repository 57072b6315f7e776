"""What was sent, what came back, and what must not be."""

import collections
import random


class Account:
    """What was sent, what came back, and what must not be."""

    def __init__(self):
        self.sent = collections.Counter()
        self.outcomes = collections.Counter()
        self.unknown = 0
        self.violations = []
        # Those of the last second, and some of all.
        self.window, self.latencies = [], []
        self.not_started = set()
        self.replied = set()
        self.faults = collections.Counter()

    def took(self, seconds):
        self.window.append(seconds)
        if len(self.latencies) < 100_000:
            self.latencies.append(seconds)
        else:
            self.latencies[random.randrange(100_000)] = seconds

    def violation(self, text):
        self.violations.append(text)
        print("VIOLATION:", text, flush=True)


def percentiles(values):
    if not values:
        return 0, 0
    ordered = sorted(values)
    return ordered[len(ordered) // 2] * 1000, ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1000
