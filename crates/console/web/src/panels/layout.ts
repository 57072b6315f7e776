// Where the nodes and edges of the flow stand: layers by dagre, lines that leave and reach nodes at
// their sides.

import dagre from "@dagrejs/dagre";
import type { Edge } from "../data/tap.ts";

export const NODE = { width: 172, height: 48 };
/** Room that the layout leaves for the number on an edge. */
const LABEL = { width: 78, height: 20 };

interface Point {
  x: number;
  y: number;
}

export interface Drawn {
  nodes: Map<string, Point>;
  edges: { edge: Edge; path: string; label: Point }[];
  width: number;
  height: number;
}

/** A line through all points that is level at each of them, so that numbers can stand on it. */
function line(points: Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x},${first.y}`;
  let last = first;
  for (const next of rest) {
    const half = (last.x + next.x) / 2;
    path += `C${half},${last.y} ${half},${next.y} ${next.x},${next.y}`;
    last = next;
  }
  return path;
}

/** A node that sends to itself has a loop on its top. */
function loop({ x, y }: Point): { path: string; label: Point } {
  const top = y - NODE.height / 2;
  return { path: `M${x + 20},${top}c0,-26 44,-26 44,0`, label: { x: x + 42, y: top - 19 } };
}

export function lay(names: string[], used: Edge[]): Drawn {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 16, ranksep: 92, edgesep: 22, marginx: 4, marginy: 10 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of names) graph.setNode(name, { ...NODE });
  for (const edge of used) if (edge.from !== edge.to) graph.setEdge(edge.from, edge.to, { ...LABEL, labelpos: "c" });
  dagre.layout(graph);
  const nodes = new Map(names.map((name) => [name, graph.node(name) as Point]));
  const edges = used.map((edge) => {
    const from = nodes.get(edge.from) ?? { x: 0, y: 0 };
    const to = nodes.get(edge.to) ?? { x: 0, y: 0 };
    if (edge.from === edge.to) return { edge, ...loop(from) };
    const told = graph.edge(edge.from, edge.to) as { points: Point[]; x: number; y: number };
    // What flows back leaves on the left and arrives on the right.
    const side = to.x >= from.x ? 1 : -1;
    const start = { x: from.x + (side * NODE.width) / 2, y: from.y };
    const end = { x: to.x - side * (NODE.width / 2 + 5), y: to.y };
    const label = { x: told.x, y: told.y };
    const between = told.points.slice(1, -1).filter((point) => Math.abs(point.x - label.x) > LABEL.width / 2);
    const inner = [...between, label].filter((point) => side * point.x > side * start.x && side * point.x < side * end.x).sort((a, b) => side * (a.x - b.x));
    return { edge, path: line([start, ...inner, end]), label };
  });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return { nodes, edges, width: Math.max(width, NODE.width), height: Math.max(height, NODE.height) };
}
