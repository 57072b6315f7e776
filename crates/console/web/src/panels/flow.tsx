// The flow: who sends what to whom, laid out in layers.

import dagre from "@dagrejs/dagre";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { actors, rates, rights, tick } from "../data/live.ts";
import { edgeRate, liveEdges, type Edge } from "../data/tap.ts";
import { clean, count, rate } from "../format.ts";
import { go, href } from "../route.ts";
import { Empty, stateTone } from "../ui/bits.tsx";

const NODE = { width: 168, height: 46 };
/** The share of errors from which on an edge is red, and not only its number. */
const BAD_SHARE = 0.02;
/** Nodes that are drawn at most; the busiest stay. */
const NODES_MAX = 60;

interface Drawn {
  nodes: Map<string, { x: number; y: number }>;
  edges: { edge: Edge; path: string; x: number; y: number }[];
  width: number;
  height: number;
}

/** A smooth line through the points that the layout gives. */
function curve(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x},${first.y}`;
  for (let at = 0; at + 1 < rest.length; at++) {
    const [here, next] = [rest[at], rest[at + 1]];
    if (!here || !next) continue;
    const end = at + 2 === rest.length ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += `Q${here.x},${here.y} ${end.x},${end.y}`;
  }
  const last = rest.at(-1);
  if (rest.length === 1 && last) path += `L${last.x},${last.y}`;
  return path;
}

function lay(names: string[], used: Edge[], isNarrow: boolean): Drawn {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: isNarrow ? "TB" : "LR", nodesep: isNarrow ? 18 : 14, ranksep: isNarrow ? 54 : 110, edgesep: 14, marginx: 4, marginy: 10 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of names) graph.setNode(name, { ...NODE });
  for (const edge of used) graph.setEdge(edge.from, edge.to, { width: 46, height: 16, labelpos: "c" });
  dagre.layout(graph);
  const nodes = new Map(names.map((name) => [name, graph.node(name) as { x: number; y: number }]));
  const edges = used.map((edge) => {
    const label = graph.edge(edge.from, edge.to) as { points: { x: number; y: number }[]; x?: number; y?: number };
    const middle = label.points[Math.floor(label.points.length / 2)] ?? { x: 0, y: 0 };
    return { edge, path: curve(label.points), x: label.x ?? middle.x, y: label.y ?? middle.y };
  });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return { nodes, edges, width: Math.max(width, NODE.width), height: Math.max(height, NODE.height) };
}

/** The kind of a node and what it is called: `capability shop`, `peer user:1000`, `timers`. */
function split(name: string): [kind: string, title: string] {
  const space = name.indexOf(" ");
  return space < 0 ? [name, name] : [name.slice(0, space), name.slice(space + 1)];
}

const WORDS: Record<string, string> = { peer: "client", timers: "schedules and the daemon", subscribers: "clients that watch", capability: "" };

function NodeBox({ name, x, y }: { name: string; x: number; y: number }) {
  const [kind, title] = split(name);
  const actor = kind === "capability" ? actors.value.find((one) => one.capabilityId === title) : undefined;
  const waiting = actor ? actor.mailbox : 0;
  const note = actor ? `${rate(rates.value?.handled.get(title) ?? 0)}/s${waiting > 0 ? ` · ${count(waiting)} waiting` : ""}` : (WORDS[kind] ?? "");
  const tone = actor ? stateTone(actor.state) : "off";
  const body = (
    <>
      <rect width={NODE.width} height={NODE.height} rx="7" />
      {actor && <circle cx="16" cy="17" r="3.5" class={`fill-${tone}`} />}
      <text x={actor ? 27 : 13} y="21" class="node-title">
        {clean(title, actor ? 18 : 20)}
      </text>
      <text x="13" y="37" class="node-note">
        {clean(actor && actor.state !== "up" ? `${actor.state} · ${note}` : note, 28)}
      </text>
      {waiting > 0 && <rect class="mail" x="0" y={NODE.height - 3} height="3" width={Math.min(NODE.width, 20 + 36 * Math.log10(waiting))} />}
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

function EdgeLine({ edge, path, x, y }: Drawn["edges"][number]) {
  const { rate: flow, errors } = edgeRate(edge);
  const tone = errors > flow * BAD_SHARE ? "edge-bad" : flow > 0 ? `edge-live ${errors > 0 ? "edge-some" : ""}` : "";
  const width = flow === 0 ? 1 : Math.min(6, 1.2 + Math.log10(1 + flow));
  const [, from] = split(edge.from);
  const [kind, to] = split(edge.to);
  const share = flow > 0 && errors > 0 ? `, ${rate(errors)}/s errors` : "";
  const open = (): void => void (kind === "capability" && go("capabilities", to));
  return (
    <g class={`edge ${tone}`} onClick={open}>
      <title>{`${clean(from, 60)} → ${clean(to, 60)}: ${rate(flow)}/s${share}; last ${clean(edge.lastType, 60)}`}</title>
      <path class="edge-line" d={path} stroke-width={width} marker-end="url(#arrow)" />
      {flow > 0 && <path class="edge-run" d={path} />}
      {flow > 0 && (
        <g transform={`translate(${x},${y})`}>
          <rect x="-22" y="-8" width="44" height="16" rx="8" />
          <text y="3.800" text-anchor="middle">
            {rate(flow)}
          </text>
        </g>
      )}
    </g>
  );
}

export function Flow() {
  tick.value;
  const place = useRef<HTMLDivElement>(null);
  const [isNarrow, setNarrow] = useState(false);
  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const observer = new ResizeObserver(() => setNarrow(box.clientWidth < 620));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);
  const used = liveEdges();
  const busy = new Set(used.flatMap((edge) => [edge.from, edge.to]));
  const capabilities = actors.value.map((actor) => `capability ${actor.capabilityId}`);
  const ordered = [...busy, ...capabilities.filter((name) => !busy.has(name))];
  const names = ordered.slice(0, NODES_MAX);
  const shown = used.filter((edge) => names.includes(edge.from) && names.includes(edge.to));
  // The picture is laid out again only when something appears or goes: it must stand still to be read.
  const shape = JSON.stringify([isNarrow, names.toSorted(), shown.map((edge) => `${edge.from}\n${edge.to}`).toSorted()]);
  const drawn = useMemo(() => lay(names.toSorted(), shown, isNarrow), [shape]);
  return (
    <div class="flow" ref={place}>
      {names.length === 0 ? (
        <Empty icon="overview" title={rights.value?.operator === false ? "The flow is for operators" : "Nothing flows yet"}>
          <p>{rights.value?.operator === false ? "It is made of the messages of everybody." : "Send something, and who talks to whom is drawn here:"}</p>
          {rights.value?.operator !== false && <pre>mainspring send Memory.Set key=colour value=blue</pre>}
        </Empty>
      ) : (
        <svg viewBox={`0 0 ${drawn.width} ${drawn.height}`} style={{ maxWidth: `${Math.round(drawn.width * 1.15)}px` }} role="group" aria-label="Who sends to whom">
          <defs>
            <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">
              <path d="M0,0 8,4 0,8z" />
            </marker>
          </defs>
          {drawn.edges.map((one) => (
            <EdgeLine key={`${one.edge.from}\n${one.edge.to}`} {...one} />
          ))}
          {[...drawn.nodes].map(([name, { x, y }]) => (
            <NodeBox key={name} name={name} x={x} y={y} />
          ))}
        </svg>
      )}
      {ordered.length > names.length && <p class="hint">{ordered.length - names.length} more are not drawn.</p>}
    </div>
  );
}
