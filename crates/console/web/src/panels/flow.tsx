// The flow: who sends what to whom. A picture where there is room, a list where there is none, and
// for whoever does not see it.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { actors, rights, tick } from "../data/live.ts";
import { edgeRate, liveEdges, type Edge } from "../data/tap.ts";
import { clean, count, rate } from "../format.ts";
import { go, href } from "../route.ts";
import { Empty, Icon, State, stateTone, type IconName } from "../ui/bits.tsx";
import { lay, NODE, type Drawn } from "./layout.ts";

/** The share of errors from which on an edge is red, and not only its number. */
const BAD_SHARE = 0.02;
/** Nodes that are drawn at most; the busiest stay. */
const NODES_MAX = 60;
/** Pixels below which the flow is a list. */
const NARROW = 620;

/** The kind of a node and what it is called: `capability shop`, `peer user:1000`, `timers`. */
function split(name: string): [kind: string, title: string] {
  const space = name.indexOf(" ");
  return space < 0 ? [name, name] : [name.slice(0, space), name.slice(space + 1)];
}

const WORDS: Record<string, string> = { peer: "client", timers: "schedules, the daemon", subscribers: "clients that watch" };
const SIGNS: Record<string, IconName> = { peer: "client", timers: "timers", subscribers: "watch" };

function NodeBox({ name, x, y, inflow }: { name: string; x: number; y: number; inflow: number }) {
  const [kind, title] = split(name);
  const actor = kind === "capability" ? actors.value.find((one) => one.capabilityId === title) : undefined;
  const waiting = actor ? actor.mailbox : 0;
  const pace = `${rate(inflow)}/s`;
  const note = actor ? [actor.state === "up" ? pace : actor.state, waiting > 0 ? `${count(waiting)} waiting` : ""].filter(Boolean).join(" · ") : (WORDS[kind] ?? "capability, gone");
  const tone = actor ? stateTone(actor.state) : "off";
  const body = (
    <>
      <rect width={NODE.width} height={NODE.height} rx="9" />
      {actor ? (
        <circle cx="18" cy="18" r="4" class={`fill-${tone}`} />
      ) : (
        <svg x="11" y="11" width="14" height="14" viewBox="0 0 16 16" class="node-sign">
          <Icon name={SIGNS[kind] ?? "capabilities"} />
        </svg>
      )}
      <text x="31" y="22" class="node-title">
        {clean(title, 18)}
      </text>
      <text x="31" y="38" class={`node-note ${tone === "bad" ? "tone-bad" : ""}`}>
        {clean(note, 26)}
      </text>
      {waiting > 0 && <rect class="mail" x="10" y={NODE.height - 4} height="3" rx="1.5" width={Math.min(NODE.width - 20, 20 + 36 * Math.log10(waiting))} />}
    </>
  );
  const place = { transform: `translate(${x - NODE.width / 2},${y - NODE.height / 2})`, class: `node node-${kind} tone-${tone}` };
  return actor ? (
    <a {...place} href={href("capabilities", title)}>
      {body}
    </a>
  ) : (
    <g {...place}>{body}</g>
  );
}

/** What an edge carries, in words. */
function told(edge: Edge): { flow: number; errors: number; words: string; way: string; isBad: boolean } {
  const { rate: flow, errors } = edgeRate(edge);
  const way = `${clean(split(edge.from)[1], 60)} → ${clean(split(edge.to)[1], 60)}`;
  const words = `${way}: ${rate(flow)}/s${errors > 0 ? `, ${rate(errors)}/s errors` : ""}; last ${clean(edge.lastType, 60)}`;
  return { flow, errors, words, way, isBad: errors > flow * BAD_SHARE };
}

function EdgeLine({ edge, path, label }: Drawn["edges"][number]) {
  const { flow, errors, words, isBad } = told(edge);
  const tone = isBad ? "edge-bad" : flow > 0 ? "edge-live" : "";
  const width = flow === 0 ? 1 : Math.min(5, 1.3 + Math.log10(1 + flow));
  const [kind, to] = split(edge.to);
  const pace = rate(flow);
  const faults = errors > 0 ? `${rate(errors)} err` : "";
  const room = 14 + (pace.length + (faults === "" ? 0 : faults.length + 1)) * 6.3;
  return (
    <g class={`edge ${tone}`} onClick={() => void (kind === "capability" && go("capabilities", to))}>
      <title>{words}</title>
      <path class="edge-line" d={path} stroke-width={width} marker-end={`url(#arrow${isBad ? "-bad" : flow > 0 ? "-live" : ""})`} />
      {flow > 0 && <path class="edge-run" d={path} />}
      {flow > 0 && (
        <g transform={`translate(${label.x},${label.y})`}>
          <rect x={-room / 2} y="-9" width={room} height="18" rx="9" />
          <text y="3.800" text-anchor="middle">
            {pace}
            {faults !== "" && (
              <tspan class="edge-errors" dx="5">
                {faults}
              </tspan>
            )}
          </text>
        </g>
      )}
    </g>
  );
}

/** Every edge as a line of text with a bar. */
function FlowList({ used }: { used: Edge[] }) {
  const lines = used.map((edge) => ({ edge, ...told(edge) })).sort((a, b) => b.flow - a.flow);
  const most = Math.max(0.1, ...lines.map(({ flow }) => flow));
  return (
    <ul class="flow-list">
      {lines.map(({ edge, flow, errors, way, isBad }) => (
        <li key={`${edge.from}\n${edge.to}`} class={isBad ? "edge-bad" : ""}>
          <span class="cut">{way}</span>
          <b>{rate(flow)}/s</b>
          {errors > 0 && <b class="tone-bad">{rate(errors)} err</b>}
          <i style={{ width: `${(flow / most) * 100}%` }} />
        </li>
      ))}
    </ul>
  );
}

/** Capabilities that nothing flows to or from. */
function Idle({ names }: { names: string[] }) {
  if (names.length === 0) return null;
  return (
    <div class="flow-idle">
      <span class="quiet">Quiet</span>
      {names.slice(0, NODES_MAX).map((name) => {
        const [, id] = split(name);
        const actor = actors.value.find((one) => one.capabilityId === id);
        return (
          <a key={name} href={href("capabilities", id)} title={actor?.state}>
            <State state={actor?.state ?? "down"} label={id} />
          </a>
        );
      })}
      {names.length > NODES_MAX && <span class="quiet">and {count(names.length - NODES_MAX)} more</span>}
    </div>
  );
}

function NothingFlows() {
  if (rights.value?.operator === false)
    return (
      <Empty icon="overview" title="The flow is for operators">
        <p>It is made of the messages of everybody.</p>
      </Empty>
    );
  return (
    <Empty icon="overview" title="Nothing flows yet">
      <p>
        Send something, from a program, a shell or <a href={href("call")}>here</a>, and who talks to whom is drawn.
      </p>
    </Empty>
  );
}

export function Flow() {
  tick.value;
  const place = useRef<HTMLDivElement>(null);
  const [isNarrow, setNarrow] = useState(false);
  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const observer = new ResizeObserver(() => setNarrow(box.clientWidth < NARROW));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);
  const used = liveEdges();
  const busy = [...new Set(used.flatMap((edge) => [edge.from, edge.to]))];
  const names = busy.slice(0, NODES_MAX).sort();
  const shown = used.filter((edge) => names.includes(edge.from) && names.includes(edge.to));
  const idle = actors.value.map((actor) => `capability ${actor.capabilityId}`).filter((name) => !busy.includes(name));
  // The picture is laid out again only when something appears or goes: it must stand still to be
  // read.
  const shape = JSON.stringify([names, shown.map((edge) => `${edge.from}\n${edge.to}`).sort()]);
  const drawn = useMemo(() => lay(names, shown), [shape]);
  return (
    <div class="flow" ref={place}>
      {names.length === 0 && <NothingFlows />}
      {names.length > 0 && !isNarrow && (
        <svg viewBox={`0 0 ${drawn.width} ${drawn.height}`} style={{ maxWidth: `${Math.round(drawn.width * 1.1)}px` }} role="group" aria-label="Who sends to whom">
          <defs>
            {["", "-live", "-bad"].map((tone) => (
              <marker key={tone} id={`arrow${tone}`} class={`arrow${tone}`} viewBox="0 0 8 8" refX="3" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
                <path d="M0,0.500 7,4 0,7.500z" />
              </marker>
            ))}
          </defs>
          {drawn.edges.map((one) => (
            <EdgeLine key={`${one.edge.from}\n${one.edge.to}`} {...one} />
          ))}
          {[...drawn.nodes].map(([name, { x, y }]) => (
            <NodeBox key={name} name={name} x={x} y={y} inflow={shown.reduce((sum, edge) => (edge.to === name ? sum + edgeRate(edge).rate : sum), 0)} />
          ))}
        </svg>
      )}
      {names.length > 0 && (
        <div class={isNarrow ? "flow-words" : "visually-hidden"}>
          <FlowList used={used} />
        </div>
      )}
      {busy.length > names.length && <p class="hint">{count(busy.length - names.length)} more are not drawn.</p>}
      {rights.value?.operator && <Idle names={idle} />}
    </div>
  );
}
