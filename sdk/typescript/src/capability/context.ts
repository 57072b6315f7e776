import { CancelledError } from "../errors.ts";
import type { Kind, Message } from "../message/message.ts";
import type { CapabilityCore } from "./core.ts";
import type { InputOf, Schema } from "./schema.ts";

/** How a request to another capability is made. */
export interface AskOptions {
  /** What it asks for: to tell something (the default), or to do something. */
  kind?: "query" | "command";
  /** How long it may take, in milliseconds. Never longer than the request that it is made for. */
  timeout?: number;
  /** Gives up waiting for it. */
  signal?: AbortSignal;
}

/**
 * How much later than the deadline a handler is told of it: the daemon's own word about a timeout
 * says more than ours.
 */
const DEADLINE_SLACK_MS = 250;

/**
 * Sends a request to another capability, and gives the data of its reply. An error of it is a
 * `RequestError`.
 */
export type Ask = (type: string, data?: unknown, options?: AskOptions) => Promise<any>;

/** Sends an event that this message caused. Awaiting it holds a loop back while nobody reads. */
export type Emit<Events> = string extends keyof Events
  ? (type: string, data?: unknown) => Promise<void>
  : <Type extends keyof Events & string>(
      type: Type,
      data: Events[Type] extends Schema ? InputOf<Events[Type]> : unknown,
    ) => Promise<void>;

/**
 * What a handler gets. Members can be taken apart: `async ({ data, ask, emit, log, signal, deadline
 * }) => ...`. What is not asked for is not made.
 */
export class Context<Data, Events = Record<string, Schema>> {
  /** What the request or event says, as its schema made it. */
  data: Data;
  /** The whole message, as it came. */
  readonly message: Message;
  readonly #core: CapabilityCore;
  #controller: AbortController | undefined;
  #aborted: CancelledError | undefined;
  #stopTimer: (() => void) | undefined;

  constructor(core: CapabilityCore, message: Message) {
    this.#core = core;
    this.message = message;
    this.data = message.data as Data;
  }

  get id(): string {
    return this.message.metadata.id;
  }

  get kind(): Kind {
    return this.message.kind;
  }

  get type(): string {
    return this.message.type;
  }

  /**
   * The workflow that the message belongs to, if any. Whatever is sent here belongs to the same.
   */
  get correlation(): string | undefined {
    return this.message.metadata.correlation;
  }

  /**
   * When the requester stops waiting, in milliseconds since 1970; undefined if the request does not
   * say. A clock that is plainly not ours (a timestamp of 0, say) does not count: then it is that
   * long from now.
   */
  get deadline(): number | undefined {
    const { timestamp, timeout } = this.message.metadata;
    if (typeof timeout !== "number") return undefined;
    const now = this.#core.clock.wall();
    const isOurs = timestamp <= now && timestamp + timeout > now;
    return (isOurs ? timestamp : now) + timeout;
  }

  /**
   * Aborted when the request is cancelled, its deadline passes, or the daemon wants the program to
   * end.
   */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted);
      else this.#watchDeadline();
    }
    return this.#controller.signal;
  }

  /** Sends a request to another capability: a query, unless its options say `kind: "command"`. */
  get ask(): Ask {
    return (type, data, options = {}) => this.#core.ask(type, data, options, this).then((reply) => reply.data);
  }

  /** Sends a command to another capability. */
  get send(): Ask {
    return (type, data, options = {}) => this.ask(type, data, { ...options, kind: "command" });
  }

  /** Sends a query to another capability. */
  get query(): Ask {
    return (type, data, options = {}) => this.ask(type, data, { ...options, kind: "query" });
  }

  /** Sends an event that this message caused. */
  get emit(): Emit<Events> {
    return ((type: string, data?: unknown) => this.#core.emit(type, data, this.id)) as Emit<Events>;
  }

  /** Tells the requester how far it is, if that asked to be told: the event `<type>.Progress`. */
  get progress(): (data: unknown) => Promise<void> {
    return (data) => this.#core.emit(`${this.type}.Progress`, data, this.id);
  }

  /** Writes a line to the log of the daemon, by standard error. */
  get log(): (...values: unknown[]) => void {
    return this.#core.log;
  }

  /** Ends the work on it: what listens on `signal` is told. */
  abort(reason: CancelledError): void {
    if (this.#aborted !== undefined) return;
    this.#aborted = reason;
    this.#controller?.abort(reason);
  }

  isAborted(): boolean {
    return this.#aborted !== undefined;
  }

  /** The work has ended: nothing may fire any more. */
  finish(): void {
    this.#stopTimer?.();
  }

  #watchDeadline(): void {
    const deadline = this.deadline;
    if (deadline === undefined) return;
    const clock = this.#core.clock;
    const details = { code: 504, originalId: this.id, originalType: this.type };
    this.#stopTimer = clock.after(deadline - clock.wall() + DEADLINE_SLACK_MS, () => {
      this.abort(new CancelledError(`${this.type} took longer than its requester waits`, details));
    });
  }
}
