"""What was sent, what came back, and what must not be."""

import collections
import random

# Violations that are kept and shown in words; of the others there is the number.
VIOLATIONS_MAX = 100
# Latencies that the percentiles are taken from.
LATENCIES_MAX = 100_000

# What is known of a request that a capability writes down.
QUERY, DONE, REPLIED, NOT_STARTED = 1, 2, 4, 8


class Account:
    """What was sent, what came back, and what must not be. Its memory has a bound."""

    def __init__(self):
        self.sent, self.replies = collections.Counter(), collections.Counter()
        self.outcomes, self.faults = collections.Counter(), collections.Counter()
        self.ended, self.unknown = collections.Counter(), 0
        self.violations, self.violations_more = [], 0
        self.near, self.far = Latencies(), Latencies()

    def outcome(self, name, text):
        """A request of that name has ended so."""
        self.ended[name] += 1
        self.outcomes[text] += 1

    def no_outcome(self, name):
        """The connection of a request of that name has ended before it."""
        self.ended[name] += 1
        self.unknown += 1

    def close(self):
        """As many have ended as were sent."""
        for name, count in self.sent.items():
            if self.ended[name] != count:
                self.violation(f"{count} of {name} were sent, and {self.ended[name]} have ended")

    def violation(self, text):
        if len(self.violations) == VIOLATIONS_MAX:
            self.violations_more += 1
            return
        self.violations.append(text)
        print("VIOLATION:", text, flush=True)


class Latencies:
    """How long replies took: those since the last look, and a fair choice of all."""

    def __init__(self):
        self.latest, self.chosen, self.count = [], [], 0

    def add(self, seconds):
        self.latest.append(seconds)
        self.count += 1
        if len(self.chosen) < LATENCIES_MAX:
            self.chosen.append(seconds)
        elif (place := random.randrange(self.count)) < LATENCIES_MAX:
            self.chosen[place] = seconds

    def look(self):
        """How many there were since the last look, and their percentiles."""
        latest, self.latest = self.latest, []
        return (len(latest), *percentiles(latest)) if latest else (0, None, None)


class Book:
    """The requests to a capability that writes down each id, beside what it wrote.

    Ids are numbers, so that a byte is enough to know of each. The file is read as it grows.
    """

    def __init__(self, name, path, account):
        self.name, self.path, self.account = name, path, account
        self.states, self.file, self.rest = bytearray(), None, b""

    def new(self, kind):
        """The id of a request that is sent now."""
        self.states.append(QUERY if kind == "query" else 0)
        return f"{self.name}-{len(self.states) - 1}"

    def told(self, identity, outcome):
        """Somebody was told this of the request."""
        place = self.place(identity)
        if outcome["kind"] == "reply":
            self.states[place] |= REPLIED
        elif outcome["data"].get("started") == "no":
            self.states[place] |= NOT_STARTED
            self.check(place)

    def read(self):
        """Takes in what the capability has written since."""
        try:
            self.file = self.file or open(self.path, "rb")
        except FileNotFoundError:
            return
        *lines, self.rest = (self.rest + self.file.read()).split(b"\n")
        for line in lines:
            place = self.place(line.decode(errors="replace"))
            if place is None:
                self.account.violation(f"{line} was done, and nobody sent it")
                continue
            if self.states[place] & DONE and not self.states[place] & QUERY:
                self.account.violation(f"{self.name}-{place} was done twice")
            self.states[place] |= DONE
            self.check(place)

    def close(self):
        """All has ended: what was answered was done."""
        self.read()
        states = enumerate(self.states)
        missing = [place for place, state in states if state & REPLIED and not state & DONE]
        if missing:
            such = f"such as {self.name}-{missing[0]}"
            self.account.violation(f"{len(missing)} requests were answered and not done, {such}")

    def count(self, bits):
        """How many commands have all of these."""
        return sum(state & (bits | QUERY) == bits for state in self.states)

    def place(self, identity):
        name, _, number = identity.partition("-")
        is_known = name == self.name and number.isdigit() and int(number) < len(self.states)
        return int(number) if is_known else None

    def check(self, place):
        if self.states[place] & DONE and self.states[place] & NOT_STARTED:
            text = f"{self.name}-{place} was done, and its client was told that it was not started"
            self.account.violation(text)


def percentiles(values):
    """The 50th and the 99th, in milliseconds."""
    if not values:
        return 0, 0
    ordered = sorted(values)
    last = len(ordered) - 1
    return tuple(ordered[min(last, len(ordered) * of // 100)] * 1000 for of in (50, 99))
