"""The samples as a picture."""


def plot(samples, path):
    try:
        import matplotlib
    except ImportError:
        print("missing: matplotlib; there is no plot")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [("rss_mb", "memory, MB"), ("descriptors", "descriptors"), ("p99_ms", "99th percentile, ms")]
    rows += [("replies", "replies per second"), ("journal_mb", "journal, MB")]
    figure, axes = pyplot.subplots(len(rows), 1, sharex=True, figsize=(11, 13))
    minutes = [row["seconds"] / 60 for row in samples]
    restarts = [b["seconds"] / 60 for a, b in zip(samples, samples[1:]) if b["start"] != a["start"]]
    for axis, (name, title) in zip(axes, rows):
        axis.plot(minutes, [row.get(name) for row in samples], linewidth=0.9)
        axis.set_ylabel(title)
        axis.grid(alpha=0.3)
        axis.set_ylim(bottom=0)
        for at in restarts:
            axis.axvline(at, color="tab:red", alpha=0.15)
    axes[-1].set_xlabel("minutes (a red line is a start of the daemon)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
