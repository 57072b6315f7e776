/**
 * What a capability does with lines, apart from where they come from: handlers, outcomes, questions
 * of its own, and its end.
 */
import { format } from "node:util";
import { Buffer } from "node:buffer";
import { type Clock, systemClock } from "../core/clock.ts";
import { Outbox, type Wire } from "../core/outbox.ts";
import { GRACE_MS, type Pending, Requests, closed, onAbort, timeoutOf } from "../core/requests.ts";
import { CancelledError, ClosedError, Failure, InvalidMessageError, OverflowError } from "../errors.ts";
import { freshId } from "../message/ids.ts";
import { parseJson, stringifyJson } from "../message/json.ts";
import { isType, type Message } from "../message/message.ts";
import type { Hints } from "./capability.ts";
import { type AskOptions, Context } from "./context.ts";
import { EventQueue } from "./events.ts";
import { invoke, isPromise } from "./invoke.ts";
import type { Schema } from "./schema.ts";

/**
 * The longest line that a daemon takes, as shipped (`limits.line_bytes_max`). A longer one would be
 * a fault.
 */
export const LINE_BYTES_MAX = 1024 * 1024;
/** Questions of its own under way at a time. */
const ASKS_MAX = 16_384;
/** The beginning of a bad line that is quoted. */
const QUOTE_LENGTH = 80;

/** A handler, with what is declared about it. */
export interface Registration {
  kind: "command" | "query" | "event";
  type: string;
  input: Schema | undefined;
  output: Schema | undefined;
  description: string | undefined;
  examples: readonly unknown[] | undefined;
  hints: Hints | undefined;
  handler: (context: Context<any, any>) => unknown;
}

/** What a core needs to know besides its handlers. */
export interface CoreOptions {
  id: string;
  /** Types of the events that it may emit; any if absent. */
  emits?: Record<string, Schema> | undefined;
  uncaused?: boolean | undefined;
  cancel?: boolean | undefined;
  lineBytesMax?: number | undefined;
  eventsAtOnce?: number | undefined;
}

/** Where a core writes to. */
export interface CoreOutlets {
  wire: Wire;
  /** A line for people. */
  log: (line: string) => void;
  clock?: Clock | undefined;
  /** Called when the core can take more lines again. */
  onReady?: (() => void) | undefined;
}

export class CapabilityCore {
  readonly options: CoreOptions;
  readonly clock: Clock;
  readonly outbox: Outbox;
  readonly #outlets: CoreOutlets;
  readonly #handlers = new Map<string, Registration>();
  readonly #lineBytesMax: number;
  /** Requests in progress, by id. */
  readonly #running = new Map<string, Context<any, any>>();
  readonly #asks: Requests;
  readonly #events: EventQueue;
  #isEnding = false;
  #whenIdle: (() => void) | undefined;

  constructor(options: CoreOptions, registrations: readonly Registration[], outlets: CoreOutlets) {
    this.options = options;
    this.clock = outlets.clock ?? systemClock;
    this.outbox = new Outbox(outlets.wire);
    this.#outlets = outlets;
    this.#lineBytesMax = options.lineBytesMax ?? LINE_BYTES_MAX;
    this.#asks = new Requests(this.clock);
    this.#events = new EventQueue(
      options.eventsAtOnce ?? 1,
      (message) => this.#runEvent(message),
      () => this.#outlets.onReady?.(),
    );
    for (const each of registrations) this.#handlers.set(`${each.kind} ${each.type}`, each);
  }

  /**
   * Takes a line of input. Never throws: what is wrong with a line is told, and the next one
   * counts.
   */
  readonly receive = (line: string): void => {
    let message: Message;
    try {
      message = parseJson(line) as Message;
      if (typeof message.metadata.id !== "string" || typeof message.type !== "string")
        throw new TypeError("it is no message");
    } catch (error) {
      this.log(`cannot read a line: ${(error as Error).message}: ${JSON.stringify(line.slice(0, QUOTE_LENGTH))}`);
      return;
    }
    switch (message.kind) {
      case "command":
      case "query":
        return this.#request(message);
      case "event":
        return this.#event(message, line.length);
      case "reply":
      case "error":
        // Nobody waits for the answer to what was cancelled or timed out.
        this.#asks.settle(message);
        return;
      default:
        this.log(`cannot read a line: unknown kind ${JSON.stringify(message.kind)}`);
    }
  };

  /** Whether more lines should be given to it now. */
  wantsInput(): boolean {
    return !this.outbox.isFull() && !this.#events.isFull();
  }

  /** No more lines will come: resolves when everything that was begun has ended and is written. */
  async end(): Promise<void> {
    this.#isEnding = true;
    // No answer can come any more.
    this.#asks.failAll((pending) => closed(pending, "the daemon ended the input"));
    while (this.#running.size > 0 || this.#events.isBusy()) {
      await new Promise<void>((done) => {
        this.#whenIdle = done;
      });
    }
    await this.outbox.drained();
  }

  /** Asks everything in progress to stop. */
  abort(reason: string): void {
    for (const context of this.#running.values()) {
      context.abort(new CancelledError(reason, { code: 503, originalId: context.id, originalType: context.type }));
    }
  }

  /** Says a line to people, on standard error. */
  readonly log = (...values: unknown[]): void => {
    this.#outlets.log(format(...values));
  };

  /**
   * Sends an event. The promise resolves when there is room for more, so a loop that awaits it is
   * held back like any writer.
   *
   * @throws {InvalidMessageError} The type is no type, is not declared, or has no cause and needs one; or the data
   *   is no JSON.
   * @throws {OverflowError} Too much is waiting.
   */
  emit(type: string, data: unknown, cause: string | undefined): Promise<void> {
    if (this.options.emits !== undefined && !(type in this.options.emits)) {
      throw new InvalidMessageError(
        `event ${type} is not declared in \`emits\` of capability ${this.options.id}`,
        type,
      );
    }
    if (cause === undefined && this.options.uncaused !== true) {
      throw new InvalidMessageError(`event ${type} has no cause; \`uncaused: true\` allows that`, type);
    }
    this.outbox.push(this.compose("event", type, data, freshId(), cause, ""));
    return this.outbox.isFull() ? this.outbox.drained() : DONE;
  }

  /** Sends a request, caused by another; resolves with its reply. */
  ask(type: string, data: unknown, options: AskOptions, context: Context<any, any>): Promise<Message> {
    return new Promise((resolve, reject) => {
      if (this.#isEnding)
        throw new ClosedError(`${type}: the daemon ended the input`, { code: 503, started: "no", originalType: type });
      if (this.#asks.size >= ASKS_MAX) throw new OverflowError(`${ASKS_MAX} requests are under way`, type);
      const id = freshId();
      const pending: Pending = {
        id,
        type,
        line: "",
        resolve,
        reject,
        repeats: false,
        isWritten: true,
        since: 0,
        hasDeadline: options.timeout !== undefined,
      };
      if (options.signal !== undefined) {
        pending.forget = onAbort(options.signal, pending, (error) => {
          this.#asks.fail(id, error);
          if (this.options.cancel === true)
            this.outbox.push(this.compose("command", "Syscall.Cancel", { id }, freshId(), context.id, ""));
        });
      }
      try {
        const timeout = options.timeout === undefined ? "" : `,"timeout":${timeoutOf(options.timeout)}`;
        this.outbox.push(this.compose(options.kind ?? "query", type, data, id, context.id, timeout));
      } catch (error) {
        pending.forget?.();
        throw error;
      }
      this.#asks.add(
        pending,
        options.timeout === undefined ? undefined : this.clock.now() + options.timeout + GRACE_MS,
      );
    });
  }

  /** A line. Causes and ids are texts of others, and are written as such. */
  compose(kind: string, type: string, data: unknown, id: string, cause: string | undefined, more: string): string {
    if (!isType(type))
      throw new InvalidMessageError(
        `${JSON.stringify(type)} is no type: it needs two or more names with a capital letter, joined by dots`,
      );
    let json: string;
    try {
      json = stringifyJson(data);
    } catch (error) {
      throw new InvalidMessageError(
        `the data of ${kind} ${type} cannot be written as JSON: ${firstLine(error)}`,
        type,
        error,
      );
    }
    const causation = cause === undefined ? "" : `,"causation":${JSON.stringify(cause)}`;
    const line = `{"kind":"${kind}","type":"${type}","data":${json},"metadata":{"id":"${id}","timestamp":${this.clock.wall()}${causation}${more}}}`;
    // A character has at most three bytes.
    if (line.length * 3 > this.#lineBytesMax && Buffer.byteLength(line) > this.#lineBytesMax) {
      throw new InvalidMessageError(
        `${kind} ${type} has ${Buffer.byteLength(line)} bytes, and a line at most ${this.#lineBytesMax}`,
        type,
      );
    }
    return line;
  }

  #request(message: Message): void {
    const handler = this.#handlers.get(`${message.kind} ${message.type}`);
    const context = new Context<any, any>(this, message);
    this.#running.set(message.metadata.id, context);
    if (handler === undefined)
      return this.#fail(
        context,
        new Failure(404, `${this.options.id} has no handler for ${message.kind} ${message.type}`),
      );
    let result: unknown;
    try {
      result = invoke(handler, context);
    } catch (error) {
      return this.#fail(context, error);
    }
    if (!isPromise(result)) return this.#succeed(context, result);
    result.then(
      (value) => this.#succeed(context, value),
      (error) => this.#fail(context, error),
    );
  }

  #succeed(context: Context<any, any>, value: unknown): void {
    let line: string;
    try {
      line = this.compose("reply", context.type, value, freshId(), context.id, "");
    } catch (error) {
      return this.#fail(context, error);
    }
    this.#finish(context, line);
  }

  #fail(context: Context<any, any>, error: unknown): void {
    let data: Record<string, unknown>;
    if (error instanceof Failure) {
      data = { ...error.details, code: error.code, message: error.message };
    } else if (error instanceof CancelledError && context.isAborted()) {
      data = { code: error.code, message: error.message };
    } else {
      // What went wrong inside may be about others: it is for the log, not for whoever asked.
      const isOurs = error instanceof InvalidMessageError;
      this.log(`${context.kind} ${context.type} failed:`, isOurs ? error.message : error);
      const words = isOurs ? error.message : "an unexpected error; the log of the capability has it";
      data = { code: 500, message: `${context.type} failed: ${words}` };
    }
    let line: string;
    try {
      line = this.#composeError(context, data);
    } catch {
      // Details that JSON cannot express, or that are too long.
      line = this.#composeError(context, { code: data["code"], message: String(data["message"]).slice(0, 1024) });
    }
    this.#finish(context, line);
  }

  #composeError(context: Context<any, any>, data: Record<string, unknown>): string {
    return this.compose("error", context.type, data, freshId(), context.id, "");
  }

  #finish(context: Context<any, any>, line: string): void {
    context.finish();
    this.outbox.push(line, true);
    this.#running.delete(context.id);
    if (this.#isEnding) this.#whenIdle?.();
  }

  #event(message: Message, length: number): void {
    if (message.type === "Sys.RequestCancelled") this.#cancelled(message);
    if (!this.#handlers.has(`event ${message.type}`)) return;
    this.#events.push(message, length);
  }

  /** Runs the handler of an event; what goes wrong is told, since nobody waits for an answer. */
  #runEvent(message: Message): void | Promise<void> {
    const handler = this.#handlers.get(`event ${message.type}`);
    if (handler === undefined) return;
    const context = new Context<any, any>(this, message);
    const failed = (error: unknown) => this.log(`event ${message.type} failed:`, error);
    const ended = () => {
      context.finish();
      if (this.#isEnding) queueMicrotask(() => this.#whenIdle?.());
    };
    let result: unknown;
    try {
      result = invoke(handler, context);
    } catch (error) {
      failed(error);
      return ended();
    }
    if (!isPromise(result)) return ended();
    return Promise.resolve(result).then(ended, (error) => {
      failed(error);
      ended();
    });
  }

  /** A request that its requester gave up. Its outcome is owed all the same: it frees the place. */
  #cancelled(event: Message): void {
    const data = (event.data ?? {}) as { id?: unknown; originalId?: unknown };
    const id = [event.metadata.causation, data.originalId, data.id].find(
      (each) => typeof each === "string" && this.#running.has(each),
    );
    const context = this.#running.get(id as string);
    context?.abort(
      new CancelledError(`${context.type} was cancelled`, {
        code: 499,
        originalId: context.id,
        originalType: context.type,
      }),
    );
  }
}

const DONE: Promise<void> = Promise.resolve();

/** What an error says, without the drawing that some engines add below. */
function firstLine(error: unknown): string {
  return (error as Error).message.split("\n", 1)[0]!;
}
