"""The samples as a picture."""

import statistics

COLOURS = {"daemon": "tab:blue", "neighbour": "tab:orange"}
# Points of a curve: more cannot be told apart.
POINTS_MAX = 1200


def plot(samples, daemons, title, path):
    try:
        import matplotlib
    except ImportError:
        print("missing: matplotlib; there is no plot")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(5, 1, sharex=True, figsize=(12, 15), layout="constrained")
    memory, descriptors, journal, replies, latency = axes
    for daemon in daemons:
        colour, prefix = COLOURS[daemon], "" if daemon == "daemon" else "far."
        curve(memory, samples, f"{daemon}.rss_mb", daemon, colour)
        curve(descriptors, samples, f"{daemon}.descriptors", daemon, colour)
        curve(journal, samples, f"{daemon}.journal_mb", daemon, colour)
        curve(replies, samples, prefix + "replies", f"by the {daemon}", colour, of=statistics.mean)
        curve(latency, samples, prefix + "p99_ms", f"99 %, {daemon}", colour)
        curve(latency, samples, prefix + "p50_ms", f"50 %, {daemon}", colour, ":")
        # Small marks at the bottom: a long soak has hundreds of starts.
        starts = starts_of(samples, daemon)
        memory.plot(starts, [0] * len(starts), "|", color=colour, label=f"starts of the {daemon}")
    latency.set_yscale("log")
    titles = ["memory, MB", "descriptors", "journal, MB", "replies in a sample", "latency, ms"]
    for axis, text in zip(axes, titles):
        axis.set_ylabel(text)
        axis.grid(alpha=0.3)
        axis.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, frameon=False)
    for axis in (memory, descriptors, journal, replies):
        axis.set_ylim(bottom=0)
    latency.set_xlabel("minutes")
    figure.suptitle(title)
    figure.savefig(path, dpi=100)


def curve(axis, samples, name, label, colour, style="-", of=max):
    """One point for each stretch: the highest, so that a long soak shows what a short one would."""
    stretch = max(1, len(samples) // POINTS_MAX)
    minutes, values = [], []
    for begin in range(0, len(samples), stretch):
        rows = samples[begin : begin + stretch]
        known = [row[name] for row in rows if row.get(name) is not None]
        minutes.append(rows[0]["seconds"] / 60)
        values.append(of(known) if known else None)
    axis.plot(minutes, values, style, label=label, color=colour, linewidth=0.9)


def starts_of(samples, daemon):
    """When it was started again, in minutes."""
    key = f"{daemon}.start"
    rows = [row for row in samples if key in row]
    pairs = zip(rows, rows[1:])
    return [after["seconds"] / 60 for before, after in pairs if after[key] != before[key]]
