import type { MainspringError } from "../errors.ts";
import { matches, type Message } from "../message/message.ts";

/** Why events are missing from a watch. */
export interface Gap {
  /**
   * `daemon`: it dropped them, because this client did not keep up. `buffer`: the program did not.
   * `reconnected`: there was no connection for a while.
   */
  reason: "daemon" | "buffer" | "reconnected";
  /** How many, if anybody knows. */
  count: number | null;
}

/** How events are watched. */
export interface WatchOptions {
  /**
   * How many events wait for the program at most; 1024 if absent. Beyond, the oldest go, and a gap
   * is told.
   */
  buffer?: number;
  /** Called before the next event when some are missing. */
  onGap?: (gap: Gap) => void;
  /** Ends it. */
  signal?: AbortSignal;
}

const BUFFER = 1024;
/** Characters of the events that wait, at most; beyond, the oldest go as well. */
const BUFFER_LENGTH_MAX = 64 * 1024 * 1024;
/** Taken events are cut off when so many are gone. */
const GONE_MAX = 1024;

/**
 * Events as they come, for `for await`. It begins at once, and goes on over lost connections; the
 * loop's end (`break`), `close` or the signal ends it.
 */
export class Watch<Event extends Message = Message> implements AsyncIterableIterator<Event>, AsyncDisposable {
  readonly types: readonly string[];
  /** Resolves when the daemon has the subscription; rejects if it refuses it. */
  readonly ready: Promise<void>;
  /** Events that were lost because the program did not take them in time. */
  dropped = 0;
  readonly #bufferMax: number;
  readonly #onGap: ((gap: Gap) => void) | undefined;
  readonly #onClose: (watch: Watch<any>) => void;
  readonly #exact: Set<string> | undefined;
  #waiting: { event: Event; length: number }[] = [];
  #length = 0;
  #first = 0;
  #gaps: Gap[] = [];
  #takers: { resolve: (result: IteratorResult<Event>) => void; reject: (error: unknown) => void }[] = [];
  #isOver = false;
  #error: MainspringError | undefined;
  #wasReady = false;
  #settle!: { resolve: () => void; reject: (error: unknown) => void };
  #forget: (() => void) | undefined;

  constructor(types: readonly string[], options: WatchOptions, onClose: (watch: Watch<any>) => void) {
    this.types = types;
    this.#bufferMax = options.buffer ?? BUFFER;
    if (!Number.isInteger(this.#bufferMax) || this.#bufferMax < 1)
      throw new RangeError("buffer must be a whole number, at least 1");
    this.#onGap = options.onGap;
    this.#onClose = onClose;
    this.#exact = types.every((type) => !type.endsWith("*")) ? new Set(types) : undefined;
    this.ready = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // Whoever does not ask learns of it from the loop.
    this.ready.catch(() => {});
    const { signal } = options;
    if (signal === undefined) return;
    const close = () => void this.close();
    signal.addEventListener("abort", close, { once: true });
    this.#forget = () => signal.removeEventListener("abort", close);
    if (signal.aborted) queueMicrotask(close);
  }

  next(): Promise<IteratorResult<Event>> {
    this.#tellGaps();
    if (this.#first < this.#waiting.length) {
      return Promise.resolve({ value: this.#take(), done: false });
    }
    if (this.#error !== undefined) {
      const error = this.#error;
      this.#error = undefined;
      return Promise.reject(error);
    }
    if (this.#isOver) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve, reject) => this.#takers.push({ resolve, reject }));
  }

  return(): Promise<IteratorResult<Event>> {
    return this.close().then(() => ({ value: undefined, done: true }));
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Ends it. What waits is given up. */
  async close(): Promise<void> {
    this.#waiting = [];
    this.#first = 0;
    this.#length = 0;
    this.#onClose(this);
    this.finish();
  }

  /** @internal The daemon has the subscription. */
  subscribed(): void {
    this.#wasReady = true;
    this.#settle.resolve();
  }

  /** @internal There is no connection: events may pass unseen. */
  lost(): void {
    if (this.#wasReady) this.gap("reconnected", null);
  }

  /** @internal Some events will never come. */
  gap(reason: Gap["reason"], count: number | null): void {
    const same = this.#gaps.find((gap) => gap.reason === reason);
    if (same === undefined) this.#gaps.push({ reason, count });
    else if (count !== null) same.count = (same.count ?? 0) + count;
    // Somebody waits for the next event: nothing comes before this.
    if (this.#takers.length > 0) this.#tellGaps();
  }

  /** @internal An event of the connection, which may be meant for another. */
  offer(event: Message, length: number): void {
    const isWanted =
      this.#exact === undefined ? this.types.some((type) => matches(type, event.type)) : this.#exact.has(event.type);
    if (!isWanted || this.#isOver) return;
    const taker = this.#takers.shift();
    if (taker !== undefined) return taker.resolve({ value: event as Event, done: false });
    this.#waiting.push({ event: event as Event, length });
    this.#length += length;
    while (
      this.#waiting.length - this.#first > this.#bufferMax ||
      (this.#length > BUFFER_LENGTH_MAX && this.#waiting.length - this.#first > 1)
    ) {
      this.#take();
      this.dropped += 1;
      this.gap("buffer", 1);
    }
  }

  /** @internal The end, because of an error or not. */
  finish(error?: MainspringError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#forget?.();
    const [first, ...others] = this.#takers.splice(0);
    if (error === undefined) this.#settle.resolve();
    else this.#settle.reject(error);
    if (first === undefined) this.#error = error;
    else if (error === undefined) first.resolve({ value: undefined, done: true });
    else first.reject(error);
    for (const other of others) other.resolve({ value: undefined, done: true });
  }

  /** The oldest that waits. */
  #take(): Event {
    const { event, length } = this.#waiting[this.#first]!;
    this.#first += 1;
    this.#length -= length;
    if (this.#first === this.#waiting.length || this.#first >= GONE_MAX) {
      this.#waiting = this.#waiting.slice(this.#first);
      this.#first = 0;
    }
    return event;
  }

  #tellGaps(): void {
    if (this.#gaps.length === 0) return;
    for (const gap of this.#gaps.splice(0)) this.#onGap?.(gap);
  }
}
