"""What a soak has found, for people and for programs."""

import json
import resource
import statistics

from account import DONE, REPLIED, percentiles

# What is looked at for growth, with what is still none: a factor, an amount, and an amount more
# while a journal fills up to what it keeps: 65,536 remembered commands, and `keep_bytes`.
WATCHED = {"rss_mb": (1.1, 6, 40), "descriptors": (1.2, 8, 0), "journal_mb": (1.3, 32, 160)}
FILLING_SECONDS = 600
TITLES = {"rss_mb": "memory, MB", "descriptors": "descriptors", "journal_mb": "journal, MB"}
# Samples of a quarter from which on there is a verdict.
SAMPLES_MIN = 20


class Growth:
    """One figure of the last life of a daemon: the second quarter of it beside the last."""

    def __init__(self, samples, daemon, name):
        self.daemon, self.name, key = daemon, name, f"{daemon}.{name}"
        everything = [row for row in samples if key in row]
        life = [
            row for row in everything if row[f"{daemon}.start"] == everything[-1][f"{daemon}.start"]
        ]
        values = [row[key] for row in life]
        self.most = max((row[key] for row in everything), default=0)
        self.seconds = life[-1]["seconds"] - life[0]["seconds"] if life else 0
        quarter = len(values) // 4
        self.is_judged = quarter >= SAMPLES_MIN
        self.early = statistics.median(values[quarter : 2 * quarter] or values or [0])
        self.is_filling = bool(life) and life[quarter]["seconds"] < FILLING_SECONDS
        self.late = statistics.median(values[-quarter:] if quarter else values or [0])

    def is_too_much(self):
        factor, slack, filling = WATCHED[self.name]
        slack += filling if self.is_filling else 0
        return self.is_judged and self.late > self.early * factor + slack

    def __str__(self):
        text = f"{TITLES[self.name]} of the {self.daemon}: {self.early:.1f} -> {self.late:.1f}"
        text += f" (most {self.most:.1f})"
        return text if self.is_judged else text + ", too short to judge"


def growths(soak):
    return [
        Growth(soak.samples, daemon.name, name) for daemon in soak.daemons() for name in WATCHED
    ]


def columns(daemons):
    """Of the file with samples."""
    kinds = ["replies", "p50_ms", "p99_ms"]
    names = ["seconds"] + kinds + [f"far.{kind}" for kind in kinds]
    return names + [f"{daemon.name}.{key}" for daemon in daemons for key in ("start", *WATCHED)]


def short(value):
    return round(value, 3) if isinstance(value, float) else value


def cpu_seconds():
    """Of the soak and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def own_mb():
    """The most memory that the soak itself had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def line(soak):
    """How it is, in a line."""
    account = soak.account
    last = soak.samples[-60:]
    parts = [f"{soak.seconds() / 60:5.0f} min: {account.sent.total():,} requests"]
    parts.append(f"{account.faults.total()} faults")
    for daemon in soak.daemons():
        words = []
        for name, unit in (("rss_mb", "MB"), ("descriptors", "fds"), ("journal_mb", "MB journal")):
            values = [
                row[f"{daemon.name}.{name}"] for row in last if f"{daemon.name}.{name}" in row
            ]
            words.append(f"{statistics.median(values or [0]):.0f} {unit}")
        parts.append(f"{daemon.name} {', '.join(words)}, {daemon.starts} starts")
    parts.append(f"{len(account.violations) + account.violations_more} violations")
    return "; ".join(parts)


def as_json(soak):
    account = soak.account
    found = {
        "seconds": round(soak.seconds(), 1),
        "interrupted": soak.interrupted is not None,
        "seed": soak.seed,
        "uplink": soak.uplink is not None,
        "sent": dict(account.sent),
        "replies": dict(account.replies),
        "outcomes": dict(account.outcomes.most_common()),
        "connections that ended before the outcome": account.unknown,
        "faults": dict(account.faults.most_common()),
        "starts": {program.name: program.starts for program in soak.programs()},
        "commands done": {book.name: book.count(DONE) for book in (soak.ledger, soak.far)},
        "commands answered": {book.name: book.count(REPLIED) for book in (soak.ledger, soak.far)},
        "latency_ms": dict(zip(("p50", "p99"), percentiles(account.near.chosen))),
        "latency_far_ms": dict(zip(("p50", "p99"), percentiles(account.far.chosen))),
        "growth": [
            {
                "daemon": growth.daemon,
                "what": growth.name,
                "seconds": growth.seconds,
                "early": growth.early,
                "late": growth.late,
                "most": growth.most,
                "judged": growth.is_judged,
            }
            for growth in growths(soak)
        ],
        "cpu_seconds": round(cpu_seconds() - soak.cpu_begun, 1),
        "own_memory_mb": round(own_mb(), 1),
        "violations": account.violations,
        "further violations": account.violations_more,
    }
    return found


def as_text(found):
    """The same for people."""
    count = len(found["violations"]) + found["further violations"]
    verdict = f"{count} VIOLATIONS" if count else "nothing lost and nothing growing"
    minutes = found["seconds"] / 60
    lines = [f"{minutes:.1f} min of soak (seed {found['seed']}): {verdict}"]
    if found["interrupted"]:
        lines.append("It was interrupted.")
    if not found["uplink"]:
        lines.append("It was without the uplink.")
    rate = found["cpu_seconds"] / found["seconds"]
    lines += ["", f"CPU: {rate:.2f} cores; memory of the soak itself: {found['own_memory_mb']} MB"]
    for title, key in (
        ("Latency here", "latency_ms"),
        ("Latency at the neighbour", "latency_far_ms"),
    ):
        latency = found[key]
        lines.append(f"{title}: 50 % {latency['p50']:.2f} ms, 99 % {latency['p99']:.2f} ms")
    lines += ["", "Growth, by the second and the last quarter of each daemon's last life:"]
    for row in found["growth"]:
        text = f"  {row['daemon']:<10} {TITLES[row['what']]:<12}"
        text += f" {row['early']:9.1f} -> {row['late']:.1f}, most {row['most']:.1f}"
        text += f", in {row['seconds'] / 60:.1f} min"
        lines.append(text if row["judged"] else text + ", too short to judge")
    unknown = "connections that ended before the outcome"
    for title in (
        "sent",
        "replies",
        "outcomes",
        "faults",
        "starts",
        "commands done",
        "commands answered",
    ):
        lines += ["", f"{title.capitalize()}: {sum(found[title].values()):,}"]
        lines += [f"  {number:>12,}  {name}" for name, number in found[title].items()]
        if title == "outcomes":
            lines.append(f"  {found[unknown]:>12,}  {unknown}")
    lines += ["", f"Violations: {count}"] + [f"  {text}" for text in found["violations"]]
    if found["further violations"]:
        lines.append(f"  and {found['further violations']} more")
    return "\n".join(lines)


def write(soak, folder):
    """Writes `report.json` and `report.txt`; the text is given back."""
    found = as_json(soak)
    (folder / "report.json").write_text(json.dumps(found, indent=2) + "\n")
    text = as_text(found)
    (folder / "report.txt").write_text(text + "\n")
    return text
