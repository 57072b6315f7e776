// The numbers that are always on top. Each leads to where more is known about it.

import type { ComponentChildren } from "preact";
import { lagNs, link, rates, stats } from "../data/live.ts";
import { bytes, count, nanos, percent, rate, short } from "../format.ts";
import { href, type PanelId } from "../route.ts";
import { Sparkline } from "./sparkline.tsx";
import type { SeriesName } from "../data/live.ts";

/** Messages in a lane from which on it is remarked. */
const LANE_FULL = 1000;

interface CellProps {
  label: string;
  value: string;
  to: PanelId;
  tone?: "bad" | "warn" | undefined;
  note?: string | undefined;
  /** What is drawn behind it. */
  series?: SeriesName;
  children?: ComponentChildren;
}

function Cell({ label, value, to, tone, note, series, children }: CellProps) {
  return (
    <a class={`cell ${tone ? `tone-${tone}` : ""}`} href={href(to)} title={note}>
      <span class="cell-label">{label}</span>
      {series && <Sparkline name={series} />}
      {children ?? <span class="cell-value">{value}</span>}
    </a>
  );
}

/** How much waits in a lane. It is nothing nearly always, so the bar grows with the logarithm. */
function Lane({ name, depth, served }: { name: string; depth: number; served: number | undefined }) {
  const width = depth === 0 ? 0 : Math.min(100, 14 + 22 * Math.log10(depth));
  return (
    <span class={`lane ${depth > LANE_FULL ? "full" : ""}`} title={`${name}: ${count(depth)} waiting, ${rate(served ?? 0)}/s served`}>
      <b>{short(depth)}</b>
      <span>
        <i style={{ width: `${width}%` }} />
      </span>
    </span>
  );
}

function journalCell(now: NonNullable<typeof stats.value>) {
  const journal = now.floors?.journal;
  if (!journal) return <Cell label="Journal" value="off" to="journal" note="Nothing is kept across a restart" />;
  const tone = journal.failed || journal.full ? "bad" : undefined;
  const value = journal.failed ? "failed" : journal.full ? "full" : bytes(journal.bytes);
  return <Cell label="Journal" value={value} to="journal" tone={tone} note={`${count(journal.facts)} facts`} />;
}

export function Strip() {
  const now = stats.value;
  const per = rates.value;
  const gauges = now?.gauges ?? {};
  const latency = now?.latencyNs;
  const lag = lagNs(now);
  const overdue = gauges.overdue ?? 0;
  const letters = gauges.deadLetters ?? 0;
  const memory = now?.floors?.daemon?.memoryBytes;
  const busy = now?.floors?.loop?.busy;
  const slowest = now?.floors?.loop?.slowest;
  const lanes = [
    ["System", gauges.systemLane],
    ["Completions", gauges.completionsLane],
    ["User", gauges.userLane],
  ] as const;
  return (
    <section class={`strip ${link.value === "away" ? "stale" : ""}`} aria-label="The daemon in numbers">
      <Cell label="Messages" value={per ? `${rate(per.messages)}/s` : "–"} to="stream" series="messages" note="Accepted requests and events" />
      <Cell label="p50" value={nanos(latency?.p50)} to="traces" series="p50" note="Half of the requests of the last seconds were answered within" />
      <Cell label="p99" value={nanos(latency?.p99)} to="traces" series="p99" note="Of 100 requests, 99 were answered within" />
      <Cell label="In flight" value={count(gauges.inFlight)} to="capabilities" series="inFlight" note={`${count(gauges.mailboxes)} waiting in mailboxes`} />
      <Cell label="Overdue" value={count(gauges.overdue)} to="capabilities" tone={overdue > 0 ? "bad" : undefined} note="Timed out, and still not answered by their capability" />
      <Cell label="Dead letters" value={count(gauges.deadLetters)} to="letters" tone={letters > 0 ? "bad" : undefined} />
      <Cell label="Loop lag" value={nanos(lag)} to="overview" series="lag" tone={(lag ?? 0) > 50e6 ? "bad" : (lag ?? 0) > 10e6 ? "warn" : undefined} note={`${percent(busy)} busy${slowest ? `; slowest: ${slowest}` : ""}`} />
      <Cell label="Lanes" value="" to="overview" note="Messages that wait, by lane: System, Completions, User">
        <span class="lanes" role="img" aria-label={lanes.map(([name, depth]) => `${name} ${depth ?? 0}`).join(", ")}>
          {lanes.map(([name, depth], at) => (
            <Lane key={name} name={name} depth={depth ?? 0} served={per?.served[at]} />
          ))}
        </span>
      </Cell>
      <Cell label="Memory" value={bytes(memory)} to="overview" series="memory" note={`${bytes(gauges.memoryBytes)} of messages, at most ${bytes(gauges.memoryBytesMax)}`} />
      {now ? journalCell(now) : <Cell label="Journal" value="–" to="journal" />}
    </section>
  );
}
