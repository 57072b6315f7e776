// What the daemon tells, as far as the page uses it; docs/reference/observation.md has all of it.

import type { Json, Kind } from "./api.ts";

export interface Latency {
  requests: number;
  mean: number;
  p50: number;
  p99: number;
  max: number;
}

export interface Stats {
  counters: Record<string, number>;
  gauges: Record<string, number>;
  latencyNs: Latency | null;
  floors: {
    daemon?: {
      version: string;
      pid: number;
      startedAt: number;
      uptimeMs: number;
      configuration?: string | null;
      listeners?: { kind: string; address: string }[];
      descriptors?: number | null;
      descriptorsMax?: number | null;
      memoryBytes: number | null;
      cpuMs: number | null;
    };
    loop?: {
      turns: number;
      wakeups: number;
      callbacks: number;
      busy?: number;
      lagNs?: { last?: number; p50?: number; p99?: number; max?: number };
      slowestNs?: number | null;
      slowest?: string | null;
    };
    clients?: Record<string, number>;
    actors?: Record<string, Floor>;
    journal?: Journal;
  } | null;
}

/** What the floor below says of an actor. */
export interface Floor {
  kind: "native" | "process" | "guest";
  pid?: number;
  phase?: string;
  wakeups?: number;
  polls?: number;
  emptyPolls?: number;
  zeroTimeoutPolls?: number;
  agains?: number;
  preemptions?: number;
  cpuUs?: number;
  bytesRead?: number;
  bytesWritten?: number;
  memoryBytes?: number;
  handles?: number;
  refused?: Record<string, number>;
}

export interface Journal {
  folder: string;
  bytes: number;
  segments: number;
  facts: number;
  flushes: number;
  flushMeanUs: number;
  flushMaxUs: number;
  unflushedBytes: number;
  held?: number;
  snapshots: number;
  full: boolean;
  failed: string | null;
}

export interface Actor {
  capabilityId: string;
  state: string;
  incarnation: number;
  mailbox: number;
  mailboxBytes: number;
  inFlight: number;
  overdue: number;
  blocked: boolean;
  handled: number;
  faults: number;
  restartsInWindow: number;
  latencyNs: Latency | null;
  sinceMs: number;
  startedAt?: number;
  probeInMs?: number | null;
  lastFault?: { at: number; message?: string; words?: string[] } | null;
  program?: "native" | "process" | "guest";
  pid?: number;
  memoryBytes?: number;
  cpuMs?: number;
}

export type Place = {
  connection?: number;
  peer?: string;
  capability?: string;
  loop?: true;
  capabilities?: number;
  clients?: number;
};

export interface Outcome {
  kind: "reply" | "error";
  id: string;
  code?: number;
  data?: Json;
  dataBytes?: number;
}

/** A message as the tap and traces tell it. */
export interface Node {
  id: string;
  kind: Kind;
  type: string;
  causation: string | null;
  correlation: string | null;
  from: Place;
  to: Place;
  at?: number;
  atUs?: number;
  waitedUs?: number;
  tookUs?: number;
  attempts?: number;
  outcome?: Outcome | null;
  messages?: number;
  data?: Json;
  dataBytes?: number;
}

export interface Trace {
  startedAt: number;
  nodes: Node[];
  leftOut: number;
}

export interface Letter {
  number: number;
  timestamp: number;
  reason: string;
  attempts: number;
  kind: Kind;
  type: string;
  id: string;
  capabilityId: string | null;
}

export interface Timer {
  timerId: string;
  kind: Kind;
  type: string;
  dueInMs: number;
  repeat: number | null;
  left: number | null;
  fired: number;
  missed: number;
  peer?: string;
}

export interface LogLine {
  number: number;
  at: number;
  capabilityId: string;
  incarnation: number;
  text: string;
}

export interface Rights {
  peer: string | null;
  allow: string[];
  operator: boolean;
}

export interface CapabilityInfo {
  id: string;
  description: string;
  handles: { kind: Kind; type: string }[];
  subscribes: string[];
}

export interface BuiltinInfo {
  type: string;
  kinds: Kind[];
  description: string;
}

export interface Catalogue {
  capabilities: CapabilityInfo[];
  builtins: BuiltinInfo[];
}

export interface Hints {
  readOnly: boolean;
  destructive: boolean;
  idempotent: boolean;
  openWorld: boolean;
}

export interface Handler {
  name: string;
  kind: Kind;
  description: string;
  title?: string;
  examples?: Json[];
  deprecated?: boolean;
  hints?: Hints;
  input: Json;
  output: Json;
  capability?: string;
}
