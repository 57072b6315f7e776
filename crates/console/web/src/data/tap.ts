// Messages as they pass: the tap, a ring of rows, and what flows between whom.

import { effect, signal, type Signal } from "@preact/signals";
import { Away, events, Problem, type Json } from "./api.ts";
import { catalogue, link, mayOperate } from "./live.ts";
import type { Node, Place } from "./types.ts";
import { many } from "../format.ts";

/** Rows that are kept. */
export const ROWS_MAX = 10_000;
/** Bytes of data that are kept with them, about. */
const DATA_BYTES_MAX = 24 << 20;
/**
 * Records a second that the page asks for at most: nobody reads more, and the daemon need not make
 * them.
 */
const RECORDS_PER_SECOND = 250;
/** How often the daemon sends what it has gathered. */
const GATHER_MS = 200;
/** Seconds that rates of the flow are taken over. */
const WINDOW = 10;

export interface Filter {
  types: string[];
  capabilities: string[];
  kinds: string[];
  failed: boolean;
  correlation: string;
}

export const NO_FILTER: Filter = { types: [], capabilities: [], kinds: [], failed: false, correlation: "" };

export interface Row extends Node {
  /** Grows by one with each row. */
  serial: number;
  at: number;
}

let serial = 0;

/** Where a row is from or to, as the name of a node of the flow. */
export function author(place: Place): string {
  if (place.capability !== undefined) return `capability ${place.capability}`;
  if (place.loop) return "timers";
  return `peer ${place.peer ?? "a client that left"}`;
}

export function placeName(place: Place): string {
  if (place.capability !== undefined) return place.capability;
  if (place.loop) return "mainspring";
  if (place.peer !== undefined) return place.peer;
  if (place.connection !== undefined) return "a client that left";
  const capabilities = place.capabilities ?? 0;
  const clients = place.clients ?? 0;
  if (capabilities + clients === 0) return "nobody";
  return [capabilities > 0 ? many(capabilities, "capability", "capabilities") : "", clients > 0 ? many(clients, "client") : ""].filter(Boolean).join(", ");
}

export function covers(pattern: string, type: string): boolean {
  if (pattern === "*") return true;
  return pattern.endsWith(".*") ? type.startsWith(pattern.slice(0, -1)) : pattern === type;
}

export function matches(filter: Filter, row: Node): boolean {
  return (
    (filter.types.length === 0 || filter.types.some((pattern) => covers(pattern, row.type))) &&
    (filter.capabilities.length === 0 ||
      filter.capabilities.some((id) => row.from.capability === id || row.to.capability === id)) &&
    (filter.kinds.length === 0 || filter.kinds.includes(row.kind)) &&
    (!filter.failed || row.outcome?.kind === "error") &&
    (filter.correlation === "" || row.correlation === filter.correlation)
  );
}

/** One tap with its rows. */
export class Feed {
  rows: Row[] = [];
  /** Bytes of data in the rows. */
  private dataBytes = 0;
  private bared = 0;
  /** Changes when rows do, at most once a frame. */
  readonly version: Signal<number> = signal(0);
  /** Why there is no tap. */
  readonly refused: Signal<string> = signal("");
  /** Messages that passed and were not recorded, of late and in all. */
  readonly skipped: Signal<number> = signal(0);
  skippedPerSecond = 0;
  private abort = new AbortController();
  private drawing = false;

  constructor(
    readonly filter: Filter,
    private readonly onRow: (row: Row, weight: number) => void = () => {},
  ) {}

  start(): this {
    void this.run();
    return this;
  }

  stop(): void {
    this.abort.abort();
  }

  private async run(): Promise<void> {
    const { signal: ended } = this.abort;
    while (!ended.aborted) {
      try {
        await events({ tap: JSON.stringify(this.asked()) }, ended, () => (this.refused.value = ""), (type, data) => {
          if (type === "Sys.Tapped") this.take(data as { records: Node[]; skipped: number });
          if (type === "Sys.EventsDropped") this.skip(Number((data as { dropped?: number }).dropped ?? 0));
        });
      } catch (error) {
        if (ended.aborted) return;
        if (error instanceof Problem && error.status !== 503) {
          this.refused.value = error.message;
          if (error.status === 401 || error.status === 403) return;
        } else if (!(error instanceof Away) && !(error instanceof Problem)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }

  private asked(): Json {
    const { types, capabilities, kinds, failed, correlation } = this.filter;
    return {
      data: true,
      perSecond: RECORDS_PER_SECOND,
      gatherMs: GATHER_MS,
      ...(types.length > 0 ? { types } : {}),
      ...(capabilities.length > 0 ? { capabilities } : {}),
      ...(kinds.length > 0 ? { kinds } : {}),
      ...(failed ? { failed } : {}),
      ...(correlation !== "" ? { correlation } : {}),
    };
  }

  seed(rows: Row[]): void {
    this.rows = rows.filter((row) => matches(this.filter, row));
  }

  private skip(amount: number): void {
    if (amount > 0) this.skipped.value += amount;
  }

  private take({ records, skipped }: { records: Node[]; skipped: number }): void {
    this.skip(skipped);
    const weight = records.length > 0 ? (records.length + skipped) / records.length : 1;
    for (const record of records) {
      const row = { ...record, at: record.at ?? Date.now(), serial: (serial += 1) };
      this.dataBytes += size(row.data) + size(row.outcome?.data);
      this.rows.push(row);
      this.onRow(row, weight);
    }
    if (this.rows.length > ROWS_MAX * 1.1) {
      const gone = this.rows.splice(0, this.rows.length - ROWS_MAX);
      for (const row of gone) this.dataBytes -= size(row.data) + size(row.outcome?.data);
      this.bared = Math.max(0, this.bared - gone.length);
    }
    this.bare();
    this.changed();
  }

  /** Rows stay longer than their data: the oldest lose it first. */
  private bare(): void {
    while (this.dataBytes > DATA_BYTES_MAX && this.bared < this.rows.length) {
      const row = this.rows[this.bared++];
      if (!row) return;
      this.dataBytes -= size(row.data) + size(row.outcome?.data);
      delete row.data;
      if (row.outcome) delete row.outcome.data;
    }
  }

  clear(): void {
    this.rows = [];
    this.dataBytes = 0;
    this.bared = 0;
    this.skipped.value = 0;
    this.changed();
  }

  private changed(): void {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.version.value += 1;
    });
  }
}

/**
 * Whether a trace lacks something that the tap may have told: data that the history does not keep,
 * or who a client was that left.
 */
export function isLacking(node: Node): boolean {
  return node.data === undefined || (node.from.connection !== undefined && node.from.peer === undefined);
}

/** The same messages with what the tap has told of them. */
export function withSeen(nodes: Node[]): Node[] {
  const wanted = new Set(nodes.filter(isLacking).map((node) => node.id));
  const seen = new Map<string, Row>();
  const rows = everything.peek()?.rows ?? [];
  for (let at = rows.length - 1; at >= 0 && seen.size < wanted.size; at--) {
    const row = rows[at];
    if (row && wanted.has(row.id) && !seen.has(row.id)) seen.set(row.id, row);
  }
  return nodes.map((node) => {
    const row = seen.get(node.id);
    if (!row) return node;
    const data = node.data ?? row.data;
    const outcome = node.outcome && node.outcome.data === undefined && row.outcome?.data !== undefined ? { ...node.outcome, data: row.outcome.data } : node.outcome;
    return { ...node, from: { ...row.from, ...node.from }, ...(data === undefined ? {} : { data }), ...(outcome === undefined ? {} : { outcome }) };
  });
}

/** Bytes of a value, about: enough to bound what is kept. */
function size(value: Json | undefined): number {
  if (value === undefined || value === null) return 0;
  if (typeof value === "string") return value.length;
  if (typeof value !== "object") return 8;
  let sum = 16;
  for (const [name, inner] of Object.entries(value)) sum += name.length + size(inner);
  return sum;
}

/** What flowed from one node to another. */
export interface Edge {
  from: string;
  to: string;
  counts: number[];
  errors: number[];
  second: number;
  lastType: string;
  seenAt: number;
}

/** Edges by both ends. */
export const edges = new Map<string, Edge>();
/** Edges that were not used for so long are forgotten, and there are no more than so many. */
const EDGE_KEPT_MS = 120_000;
const EDGES_MAX = 200;

/** Where a message goes, as names of nodes. Who subscribes is in the catalogue. */
function targets(row: Node): string[] {
  if (row.to.capability !== undefined) return [`capability ${row.to.capability}`];
  if (row.to.loop) return [];
  const found = (catalogue.value?.capabilities ?? [])
    .filter(
      ({ subscribes, handles }) =>
        subscribes.some((pattern) => covers(pattern, row.type)) ||
        handles.some(({ kind, type }) => kind === "event" && type === row.type),
    )
    .map((capability) => `capability ${capability.id}`);
  if ((row.to.clients ?? 0) > 0) found.push("subscribers");
  return found;
}

function flow(row: Row, weight: number): void {
  const from = author(row.from);
  for (const to of targets(row)) {
    const key = `${from}\n${to}`;
    let edge = edges.get(key);
    if (!edge) {
      if (edges.size >= EDGES_MAX) forget();
      if (edges.size >= EDGES_MAX) return;
      edge = { from, to, counts: Array(WINDOW).fill(0), errors: Array(WINDOW).fill(0), second: 0, lastType: "", seenAt: 0 };
      edges.set(key, edge);
    }
    turn(edge);
    const slot = edge.second % WINDOW;
    edge.counts[slot] = (edge.counts[slot] ?? 0) + weight;
    if (row.outcome?.kind === "error") edge.errors[slot] = (edge.errors[slot] ?? 0) + weight;
    edge.lastType = row.type;
    edge.seenAt = Date.now();
  }
}

function turn(edge: Edge): void {
  const second = Math.floor(Date.now() / 1000);
  const passed = Math.min(WINDOW, second - edge.second);
  for (let step = 0; step < passed; step++) {
    edge.counts[(second - step) % WINDOW] = 0;
    edge.errors[(second - step) % WINDOW] = 0;
  }
  edge.second = second;
}

function forget(): void {
  const now = Date.now();
  for (const [key, edge] of edges) if (now - edge.seenAt > EDGE_KEPT_MS) edges.delete(key);
}

/** Messages and errors a second on an edge, over the last seconds. */
export function edgeRate(edge: Edge): { rate: number; errors: number } {
  turn(edge);
  const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);
  return { rate: sum(edge.counts) / WINDOW, errors: sum(edge.errors) / WINDOW };
}

export function liveEdges(): Edge[] {
  forget();
  return [...edges.values()];
}

/** The tap of everything, while somebody may tap. */
export const everything = signal<Feed | null>(null);

export function startTap(): void {
  effect(() => {
    const may = mayOperate.value;
    const there = everything.peek();
    if (may && link.value !== "signed-out" && !there) everything.value = new Feed(NO_FILTER, flow).start();
    if ((!may || link.value === "signed-out") && there) {
      there.stop();
      everything.value = null;
    }
  });
}
