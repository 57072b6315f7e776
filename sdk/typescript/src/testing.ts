/**
 * Tests without a daemon: a small one in memory, with virtual time if wanted. It routes as the real
 * one does and holds capabilities to the same rules; what it leaves out is restarts, limits and
 * JSON Schema (schemas of libraries are checked all the same, by the capability itself).
 *
 * @example
 * const daemon = createTestDaemon(notes);
 * assert.deepEqual(await daemon.send("Notes.Add", { text: "milk" }), { id: 1 });
 * assert.equal(daemon.events[0].type, "Notes.Added");
 * await daemon.close();
 */
import type { Capability } from "./capability/capability.ts";
import type { CapabilityCore } from "./capability/core.ts";
import { Client } from "./client/client.ts";
import { ClientCore } from "./client/core.ts";
import type { RequestOptions } from "./client/core.ts";
import { type Clock, VirtualClock, settle, systemClock } from "./core/clock.ts";
import type { Wire } from "./core/outbox.ts";
import { Failure } from "./errors.ts";
import { freshId } from "./message/ids.ts";
import { parseJson, stringifyJson } from "./message/json.ts";
import { matches, type Message } from "./message/message.ts";

export { VirtualClock } from "./core/clock.ts";

/**
 * Answers requests of a type in place of a capability. What it throws is an error: a `Failure` its
 * own, anything else 500.
 */
export type Stub = (data: any, request: Message) => unknown;

/** Somebody at the other end of a line in memory. */
interface Peer {
  receive: (line: string) => void;
  /** Of a client: what it watches. */
  patterns: Set<string>;
  capability?: Capability<any>;
  core?: CapabilityCore;
}

interface Open {
  request: Message;
  from: Peer;
  to: Peer | undefined;
  stopTimer: () => void;
}

const TIMEOUT_MS = 30_000;
const RESERVED = /^(Sys|Syscall|Timer|Kernel)\./;

/** A daemon in memory. */
export class TestDaemon {
  /** Every event that a capability emitted, oldest first. */
  readonly events: Message[] = [];
  /** What capabilities wrote to their log. */
  readonly logs: string[] = [];
  /** The rules that capabilities broke; the real daemon would have restarted them. */
  readonly faults: string[] = [];
  readonly #clock: Clock;
  readonly #peers: Peer[] = [];
  readonly #stubs = new Map<string, Stub>();
  readonly #open = new Map<string, Open>();
  readonly #client: Client;

  constructor(options: { clock?: Clock } = {}) {
    this.#clock = options.clock ?? systemClock;
    this.#client = this.connect();
  }

  /** Runs a capability. */
  add(capability: Capability<any>): this {
    const peer: Peer = { receive: () => {}, patterns: new Set(), capability };
    const wire = this.#wire(peer);
    peer.core = capability.start({ wire, log: (line) => this.logs.push(line), clock: this.#clock });
    peer.receive = peer.core.receive;
    for (const { kind, type } of capability.handles) if (kind === "event") peer.patterns.add(type);
    this.#peers.push(peer);
    return this;
  }

  /** Answers commands and queries of a type. */
  handle(type: string, stub: Stub): this {
    this.#stubs.set(type, stub);
    return this;
  }

  /** A client of it, for code that takes one. */
  connect(): Client {
    const core = new ClientCore({ clock: this.#clock });
    const peer: Peer = { receive: core.receive, patterns: new Set() };
    this.#peers.push(peer);
    core.open(this.#wire(peer));
    return new Client(core, {
      close: async () => {
        this.#peers.splice(this.#peers.indexOf(peer), 1);
      },
    });
  }

  /** Sends a command, and gives the data of its reply. */
  send(type: string, data?: unknown, options?: RequestOptions): Promise<any> {
    return this.#client.send(type, data, options);
  }

  /** Sends a query, and gives the data of its reply. */
  query(type: string, data?: unknown, options?: RequestOptions): Promise<any> {
    return this.#client.query(type, data, options);
  }

  /** Sends an event; resolves when the handlers have it and have done what needs no waiting. */
  async emit(type: string, data?: unknown): Promise<void> {
    await this.#client.emit(type, data);
    await settle();
  }

  /** Lets virtual time pass. */
  async advance(ms: number): Promise<void> {
    if (!(this.#clock instanceof VirtualClock))
      throw new TypeError("time passes by itself here; make the daemon with a VirtualClock");
    await this.#clock.advance(ms);
  }

  /** Ends it: the input of each capability ends, and what they have is finished. */
  async close(): Promise<void> {
    await Promise.all(this.#peers.map((peer) => peer.core?.end()));
    for (const open of this.#open.values()) open.stopTimer();
    await this.#client.close();
  }

  #wire(peer: Peer): Wire {
    return {
      send: (text) => {
        for (const line of text.split("\n")) if (line !== "") this.#said(peer, parseJson(line) as Message);
      },
      waiting: () => 0,
      whenEmpty: (call) => queueMicrotask(call),
    };
  }

  #said(from: Peer, message: Message): void {
    switch (message.kind) {
      case "command":
      case "query":
        return this.#request(from, message);
      case "event":
        return this.#event(from, message);
      default:
        return this.#outcome(from, message);
    }
  }

  #request(from: Peer, request: Message): void {
    const timeout = request.metadata.timeout ?? TIMEOUT_MS;
    const open: Open = { request, from, to: undefined, stopTimer: () => {} };
    this.#open.set(request.metadata.id, open);
    if (this.#builtIn(open)) return;
    const stub = this.#stubs.get(request.type);
    open.to = this.#peers.find((peer) =>
      peer.capability?.handles.some((each) => each.kind === request.kind && each.type === request.type),
    );
    if (stub === undefined && open.to === undefined) {
      return this.#error(open, "Sys.RoutingError", 404, `nobody handles ${request.kind} ${request.type}`, "no");
    }
    open.stopTimer = this.#clock.after(timeout, () =>
      this.#error(open, "Sys.Timeout", 504, `no outcome within ${timeout} ms`, "yes"),
    );
    if (stub !== undefined) void this.#answer(open, stub);
    else this.#deliver(open.to!, request);
  }

  #builtIn(open: Open): boolean {
    const { request, from } = open;
    const { types, id } = (request.data ?? {}) as { types?: string[]; id?: string };
    switch (request.type) {
      case "Syscall.Ping":
        this.#reply(open, request.data);
        return true;
      case "Sys.Subscribe":
        for (const type of types ?? []) from.patterns.add(type);
        this.#reply(open, { types });
        return true;
      case "Sys.Unsubscribe":
        for (const type of types ?? [...from.patterns]) from.patterns.delete(type);
        this.#reply(open, { types });
        return true;
      case "Syscall.Cancel":
        this.#cancel(from, id ?? "");
        this.#reply(open, {});
        return true;
      default:
        return false;
    }
  }

  #cancel(from: Peer, id: string): void {
    const open = this.#open.get(id);
    if (open === undefined || open.from !== from) return;
    if (open.to !== undefined)
      this.#deliver(open.to, this.#make("event", "Sys.RequestCancelled", { originalId: id }, id));
    this.#error(open, "Sys.Cancelled", 499, "the requester cancelled it", "yes");
  }

  async #answer(open: Open, stub: Stub): Promise<void> {
    const { request } = open;
    try {
      const data = await stub(request.data, request);
      if (this.#isOpen(open)) this.#reply(open, data);
    } catch (error) {
      const code = error instanceof Failure ? error.code : 500;
      const data = { code, message: (error as Error).message };
      if (this.#isOpen(open)) this.#end(open, this.#make("error", request.type, data, request.metadata.id));
    }
  }

  #event(from: Peer, event: Message): void {
    if (from.capability !== undefined) {
      this.events.push(event);
      const isCaused = event.metadata.causation !== undefined || from.capability.options.uncaused === true;
      if (!isCaused) this.#fault(from, `event ${event.type} without a cause`);
    }
    if (RESERVED.test(event.type)) return this.#fault(from, `the event ${event.type}, whose type is reserved`);
    const open = this.#open.get(event.metadata.causation ?? "");
    const isProgress = event.type.endsWith(".Progress") && open?.request.metadata["progress"] === true;
    for (const peer of this.#peers) {
      const isWanted = [...peer.patterns].some((pattern) => matches(pattern, event.type));
      if (isWanted || (isProgress && peer === open?.from)) this.#deliver(peer, event);
    }
  }

  #outcome(from: Peer, outcome: Message): void {
    const id = outcome.metadata.causation ?? "";
    const open = this.#open.get(id);
    // Late, because the request timed out or was cancelled: no fault.
    if (open === undefined || open.to !== from) return;
    if (outcome.type !== open.request.type)
      this.#fault(from, `${outcome.kind} ${outcome.type} for ${open.request.type}`);
    this.#end(open, outcome);
  }

  #fault(from: Peer, words: string): void {
    this.faults.push(`${from.capability?.options.id ?? "a client"}: ${words}`);
  }

  #isOpen(open: Open): boolean {
    return this.#open.get(open.request.metadata.id) === open;
  }

  #reply(open: Open, data: unknown): void {
    this.#end(open, this.#make("reply", open.request.type, data, open.request.metadata.id));
  }

  #error(open: Open, type: string, code: number, message: string, started: "yes" | "no"): void {
    const { id } = open.request.metadata;
    this.#end(
      open,
      this.#make("error", type, { code, message, originalId: id, originalType: open.request.type, started }, id),
    );
  }

  #end(open: Open, outcome: Message): void {
    open.stopTimer();
    if (this.#isOpen(open)) this.#open.delete(open.request.metadata.id);
    this.#deliver(open.from, outcome);
  }

  #make(kind: Message["kind"], type: string, data: unknown, causation: string): Message {
    return { kind, type, data: data ?? null, metadata: { id: freshId(), timestamp: this.#clock.wall(), causation } };
  }

  /**
   * As a line, so that nobody shares data with anybody, and what JSON cannot carry does not arrive.
   */
  #deliver(peer: Peer, message: Message): void {
    const line = stringifyJson(message);
    queueMicrotask(() => peer.receive(line));
  }
}

/** A daemon in memory that runs these capabilities. */
export function createTestDaemon(...capabilities: Capability<any>[]): TestDaemon {
  const daemon = new TestDaemon();
  for (const each of capabilities) daemon.add(each);
  return daemon;
}
