// At a glance: charts, what flows between whom, and how the capabilities are.

import { actors, catalogue, isSick, rates, rights, tick } from "../data/live.ts";
import { everything } from "../data/tap.ts";
import { bytes, clean, clockShort, count, micros, nanos, rate } from "../format.ts";
import { href } from "../route.ts";
import { Empty, needsOperator, State } from "../ui/bits.tsx";
import { Chart } from "../ui/chart.tsx";
import { Attention } from "./attention.tsx";
import { Flow } from "./flow.tsx";

/** Marks of an axis of bytes stand at powers of two. */
const BYTE_STEPS = Array.from({ length: 40 }, (_, at) => 2 ** at);

const ms = (value: number): string => (value === 0 ? "0" : micros(value * 1000));

function Charts() {
  return (
    <div class="charts">
      <Chart title="Messages a second" unit={(value) => rate(value)} least={10} lines={[{ name: "messages", label: "all", colour: "graph", fill: true }, { name: "errors", label: "errors", colour: "bad" }]} />
      <Chart title="Latency" unit={ms} least={0.1} lines={[{ name: "p99", label: "p99", colour: "graph", fill: true }, { name: "p50", label: "p50", colour: "second" }]} />
      <Chart title="Event loop" unit={(value) => `${value < 10 ? value.toFixed(1) : value.toFixed(0)} %`} least={2} lines={[{ name: "busy", label: "busy", colour: "graph", fill: true }]} />
      <Chart title="Memory" unit={(value) => bytes(value)} least={1 << 20} steps={BYTE_STEPS} lines={[{ name: "memory", label: "daemon", colour: "graph", fill: true }]} />
    </div>
  );
}

function Health() {
  const list = [...actors.value].sort((a, b) => Number(isSick(b)) - Number(isSick(a)) || a.capabilityId.localeCompare(b.capabilityId));
  if (list.length === 0)
    return (
      <Empty icon="capabilities" title="No capabilities yet">
        <p>Write one in any language that reads and writes lines:</p>
        <pre>mainspring new capability greeter</pre>
      </Empty>
    );
  return (
    <table class="rows">
      <thead>
        <tr>
          <th>Capability</th>
          <th>State</th>
          <th class="number">Handled</th>
          <th class="number">Waiting</th>
          <th class="number">p99</th>
        </tr>
      </thead>
      <tbody>
        {list.slice(0, 40).map((actor) => (
          <tr key={actor.capabilityId}>
            <td class="name">
              <a href={href("capabilities", actor.capabilityId)}>{clean(actor.capabilityId, 60)}</a>
            </td>
            <td>
              <State state={actor.state} />
            </td>
            <td class="number">{rate(rates.value?.handled.get(actor.capabilityId) ?? 0)}/s</td>
            <td class="number">{count(actor.mailbox + actor.inFlight)}</td>
            <td class="number">{nanos(actor.latencyNs?.p99)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The newest failures among the rows of the tap. */
function Failures() {
  const feed = everything.value;
  feed?.version.value;
  if (rights.value && !rights.value.operator)
    return (
      <Empty icon="warn" title="Failures are for operators">
        <p>{needsOperator()}</p>
      </Empty>
    );
  const found = [];
  const rows = feed?.rows ?? [];
  for (let at = rows.length - 1; at >= 0 && found.length < 8; at--) {
    const row = rows[at];
    if (row?.outcome?.kind === "error") found.push(row);
  }
  if (found.length === 0)
    return (
      <Empty icon="check" title="Nothing failed">
        <p>Requests that end in an error show here, newest first.</p>
      </Empty>
    );
  return (
    <table class="rows">
      <thead>
        <tr>
          <th>At</th>
          <th>Type</th>
          <th>To</th>
          <th class="number">Code</th>
        </tr>
      </thead>
      <tbody>
        {found.map((row) => (
          <tr key={row.serial}>
            <td class="quiet">{clockShort(row.at)}</td>
            <td class="name">
              <a href={href("traces", row.id)}>{clean(row.type, 60)}</a>
            </td>
            <td>{clean(row.to.capability ?? "mainspring", 40)}</td>
            <td class="number tone-bad">{row.outcome?.code ?? "error"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Overview() {
  tick.value;
  catalogue.value;
  return (
    <>
      <h1 class="visually-hidden">Overview</h1>
      <Attention />
      <Charts />
      <section class="card flow-card" aria-labelledby="flow-title">
        <header>
          <h2 id="flow-title">Flow</h2>
          <p class="hint">Messages a second over the last 10 s, and how many of them fail.</p>
        </header>
        <Flow />
      </section>
      <div class="two">
        <section class="card" aria-labelledby="health-title">
          <header>
            <h2 id="health-title">Capabilities</h2>
            <a href={href("capabilities")}>All</a>
          </header>
          <Health />
        </section>
        <section class="card" aria-labelledby="failures-title">
          <header>
            <h2 id="failures-title">Latest failures</h2>
            <a href={href("traces")}>Traces</a>
          </header>
          <Failures />
        </section>
      </div>
    </>
  );
}
