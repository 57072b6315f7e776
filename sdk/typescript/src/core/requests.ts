import {
  CancelledError,
  ClosedError,
  InvalidMessageError,
  MainspringError,
  RequestError,
  TimeoutError,
} from "../errors.ts";
import type { Message } from "../message/message.ts";
import type { Clock } from "./clock.ts";
import { Deadlines } from "./deadlines.ts";

/** How much longer than the daemon we wait: its own word about a timeout says more than ours. */
export const GRACE_MS = 2000;

/** A request that was made and has no outcome yet. */
export interface Pending {
  readonly id: string;
  readonly type: string;
  /** As it was written, for a repetition byte for byte. Empty where nothing is repeated. */
  readonly line: string;
  readonly resolve: (reply: Message) => void;
  readonly reject: (error: MainspringError) => void;
  /** Told of events that report progress. */
  readonly onProgress?: ((event: Message) => void) | undefined;
  /** Whether it is sent again after a lost connection. */
  readonly repeats: boolean;
  /** Whether it was handed to a connection at least once. */
  isWritten: boolean;
  /** When it was made, monotonic. */
  readonly since: number;
  /** Whether it has a deadline of its own. */
  readonly hasDeadline: boolean;
  /** Takes the listener off the caller's signal. */
  forget?: (() => void) | undefined;
}

/** The requests under way: found by the id that their outcome names as its cause. */
export class Requests {
  readonly #pending = new Map<string, Pending>();
  readonly #deadlines: Deadlines;
  /** Characters of the lines that are kept for repetition. */
  bytes = 0;

  constructor(clock: Clock) {
    this.#deadlines = new Deadlines(clock, (id) => this.#timeOut(id));
  }

  get size(): number {
    return this.#pending.size;
  }

  get(id: string): Pending | undefined {
    return this.#pending.get(id);
  }

  has(id: string): boolean {
    return this.#pending.has(id);
  }

  values(): IterableIterator<Pending> {
    return this.#pending.values();
  }

  add(pending: Pending, deadline: number | undefined): void {
    this.#pending.set(pending.id, pending);
    this.bytes += pending.line.length;
    if (deadline !== undefined) this.#deadlines.set(pending.id, deadline);
  }

  /** Takes an outcome. False: nobody waits for it. */
  settle(outcome: Message): boolean {
    const cause = outcome.metadata.causation;
    const pending = cause === undefined ? undefined : this.#take(cause);
    if (pending === undefined) return false;
    if (outcome.kind === "reply") pending.resolve(outcome);
    else pending.reject(new RequestError(outcome, pending));
    return true;
  }

  /** Ends a request without an outcome. */
  fail(id: string, error: MainspringError): void {
    this.#take(id)?.reject(error);
  }

  /** Forgets a request, without telling anybody. */
  drop(id: string): void {
    this.#take(id);
  }

  /** Ends those that are chosen. */
  failAll(error: (pending: Pending) => MainspringError | undefined): void {
    for (const pending of [...this.#pending.values()]) {
      const reason = error(pending);
      if (reason !== undefined) this.fail(pending.id, reason);
    }
  }

  #take(id: string): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    this.bytes -= pending.line.length;
    if (pending.hasDeadline) this.#deadlines.delete(id);
    pending.forget?.();
    return pending;
  }

  #timeOut(id: string): void {
    const pending = this.#pending.get(id);
    if (pending === undefined) return;
    const details = {
      code: 504,
      originalId: id,
      originalType: pending.type,
      started: pending.isWritten ? undefined : ("no" as const),
    };
    this.fail(id, new TimeoutError(`${pending.type}: no outcome in time, and no word of the daemon`, details));
  }
}

/**
 * Has an `AbortSignal` end something. Returns what takes the listener off again.
 *
 * @throws {CancelledError} It is aborted already.
 */
export function onAbort(
  signal: AbortSignal,
  about: { id: string; type: string },
  call: (error: CancelledError) => void,
): () => void {
  const error = (started?: "no") =>
    new CancelledError(`${about.type} was cancelled`, {
      code: 499,
      started,
      originalId: about.id,
      originalType: about.type,
      cause: signal.reason,
    });
  if (signal.aborted) throw error("no");
  const listener = () => call(error());
  signal.addEventListener("abort", listener, { once: true });
  return () => signal.removeEventListener("abort", listener);
}

/** A time as it is written into a message. */
export function timeoutOf(ms: number): number {
  if (!Number.isFinite(ms) || ms <= 0) {
    throw new InvalidMessageError(`a timeout is a number of milliseconds above 0, not ${ms}`);
  }
  return Math.max(1, Math.round(ms));
}

/** There is no connection for a request, or not any more. */
export function closed(pending: { id: string; type: string; isWritten: boolean }, why: string): ClosedError {
  const started = pending.isWritten ? undefined : ("no" as const);
  const details = { code: 503, started, originalId: pending.id, originalType: pending.type };
  return new ClosedError(`${pending.type}: ${why}`, details);
}
