// The journal: whether what was accepted survives, and what that costs.

import { rates, stats, tick } from "../data/live.ts";
import { bytes, clean, count, micros, rate } from "../format.ts";
import { Empty, Icon } from "../ui/bits.tsx";
import { Chart } from "../ui/chart.tsx";

export function JournalPanel() {
  tick.value;
  const journal = stats.value?.floors?.journal;
  const per = rates.value;
  if (!journal)
    return (
      <>
        <h1 class="title">Journal</h1>
        <div class="card">
          <Empty icon="journal" title="There is no journal">
            <p>Timers, dead letters and durable requests end with the daemon. To keep them, name a folder in mainspring.toml:</p>
            <pre>{'[journal]\nfolder = "journal"'}</pre>
          </Empty>
        </div>
      </>
    );
  const numbers: [string, string, string][] = [
    ["On disk", bytes(journal.bytes), `${count(journal.segments)} segments, ${count(journal.snapshots)} snapshots`],
    ["Facts", count(journal.facts), `${rate(per?.facts)}/s`],
    ["Flushes", count(journal.flushes), `${rate(per?.flushes)}/s`],
    ["A flush takes", micros(journal.flushMeanUs), `at most ${micros(journal.flushMaxUs)}`],
    ["Not flushed yet", bytes(journal.unflushedBytes), "what a power cut would cost"],
    ["Waiting for the disk", count(journal.held ?? 0), "answers and deliveries"],
  ];
  return (
    <>
      <h1 class="title">Journal</h1>
      {journal.failed && (
        <p class="banner tone-bad" role="alert">
          <Icon name="warn" />
          <span>
            <strong>The journal failed.</strong> {clean(journal.failed, 400)} Nothing durable is accepted until the daemon is restarted.
          </span>
        </p>
      )}
      {journal.full && (
        <p class="banner tone-bad" role="alert">
          <Icon name="warn" />
          <span>
            <strong>The journal is full.</strong> Durable requests wait until there is room.
          </span>
        </p>
      )}
      <div class="card">
        <dl class="tiles">
          {numbers.map(([name, value, note]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                {value} <small>{note}</small>
              </dd>
            </div>
          ))}
        </dl>
        <p class="hint pad">
          Folder <code>{clean(journal.folder, 200)}</code>
        </p>
      </div>
      <div class="charts">
        <Chart title="Facts a second" unit={(value) => rate(value)} least={10} lines={[{ name: "facts", label: "facts", colour: "graph", fill: true }]} />
        <Chart title="A flush" unit={(value) => (value === 0 ? "0" : micros(value * 1000))} least={1} lines={[{ name: "flush", label: "mean", colour: "graph", fill: true }]} />
      </div>
    </>
  );
}
