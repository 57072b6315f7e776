/**
 * What a client does with lines, apart from where they come from: requests, events, repetition
 * after a lost connection.
 */
import { type Clock, systemClock } from "../core/clock.ts";
import { Outbox, WAITING_BYTES_MAX, type Wire } from "../core/outbox.ts";
import { GRACE_MS, type Pending, Requests, closed, onAbort, timeoutOf } from "../core/requests.ts";
import { ConnectError, InvalidMessageError, MainspringError, OverflowError, RequestError } from "../errors.ts";
import { freshId } from "../message/ids.ts";
import { parseJson, stringifyJson } from "../message/json.ts";
import { isType, type Message } from "../message/message.ts";
import type { Watch } from "./watch.ts";

/**
 * How long a connection may be silent while something is waited for, before it is asked whether it
 * is still there.
 */
export const SILENCE_MS = 30_000;
/** Requests under way at a time; the daemon's own bound for one peer is the same as shipped. */
const REQUESTS_MAX = 16_384;
/** The cause that errors about a connection as a whole name. */
const CONNECTION = "connection";

/** How a request is made. */
export interface RequestOptions {
  /** How long it may take, in milliseconds; without it, as the daemon is set. */
  timeout?: number;
  /** Cancels it: the promise rejects with a `CancelledError`, and the daemon is told. */
  signal?: AbortSignal;
  /** An id of one's own, to repeat a request of an earlier process. */
  id?: string;
  /** The workflow that it belongs to. */
  correlation?: string;
  /** Called with the data of each progress event of this request. */
  onProgress?: (data: any, event: Message) => void;
  /** Whether it is sent again, under the same id, after a lost connection; true if absent. */
  repeat?: boolean;
  /** More members of the metadata. */
  metadata?: Record<string, unknown>;
}

/** What a connection may do. */
export interface Rights {
  /** Types that may be sent and seen: exact types, `Prefix.*`, or `*`. */
  allow?: readonly string[];
  /** Whether it may do what is for operators. */
  operator?: boolean;
}

/** What the core needs from its surroundings. */
export interface ClientOutlets {
  clock?: Clock | undefined;
  /** The connection does not answer: it is to be given up. */
  onSilent?: (() => void) | undefined;
}

const DONE = Promise.resolve();

export class ClientCore {
  readonly clock: Clock;
  readonly #outlets: ClientOutlets;
  readonly #requests: Requests;
  readonly #watches = new Set<Watch>();
  #outbox: Outbox | undefined;
  /** A connection whose rights are not restricted yet, as they have to be. */
  #opening: Outbox | undefined;
  #restriction: Rights | undefined;
  #isClosed = false;
  #lastHeard = 0;
  #stopLooking: (() => void) | undefined;
  /** When the connection was lost, monotonic; undefined while there is one. */
  #lostAt: number | undefined = 0;
  #refusal: ConnectError | undefined;

  constructor(outlets: ClientOutlets = {}) {
    this.#outlets = outlets;
    this.clock = outlets.clock ?? systemClock;
    this.#requests = new Requests(this.clock);
  }

  get isConnected(): boolean {
    return this.#outbox !== undefined;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Requests under way. */
  get pending(): number {
    return this.#requests.size;
  }

  /** Why the daemon refused the connection as a whole, if it did. */
  get refusal(): ConnectError | undefined {
    return this.#refusal;
  }

  /**
   * There is a connection. Subscriptions are made again, and what is unanswered is sent again, in
   * its order and byte for byte.
   */
  open(wire: Wire, greeting = ""): Promise<void> {
    const outbox = new Outbox(wire);
    this.#refusal = undefined;
    this.#lastHeard = this.clock.now();
    if (greeting !== "") outbox.push(greeting, true);
    const restriction = this.#restriction;
    if (restriction === undefined) {
      this.#resume(outbox);
      return DONE;
    }
    // Nothing is said with rights that were given up: the rest waits until the daemon has taken
    // them.
    this.#opening = outbox;
    return new Promise((resolve, reject) => {
      const id = freshId();
      const resumed = () => {
        this.#resume(outbox);
        resolve();
      };
      const failed = (error: MainspringError) => {
        if (error.kind === "outcome") {
          this.close("", new ConnectError(`the rights of a new connection cannot be restricted: ${error.message}`));
        }
        reject(error);
      };
      this.#requests.add(this.#unrepeated(id, "Sys.Restrict", resumed, failed), undefined);
      outbox.push(this.#compose("command", "Sys.Restrict", restriction, id, {}), true);
      this.#look();
    });
  }

  #resume(outbox: Outbox): void {
    this.#opening = undefined;
    this.#outbox = outbox;
    this.#lostAt = undefined;
    for (const watch of this.#watches) this.#subscribe(watch);
    for (const pending of this.#requests.values()) {
      if (!pending.repeats) continue;
      pending.isWritten = true;
      outbox.push(pending.line, true);
    }
    this.#look();
  }

  /** The connection is gone. What cannot be repeated fails; the rest waits for the next one. */
  lost(why: string): void {
    if (this.#outbox === undefined && this.#opening === undefined) return;
    this.#outbox = undefined;
    this.#opening = undefined;
    this.#lostAt ??= this.clock.now();
    this.#requests.failAll((pending) => (pending.repeats ? undefined : closed(pending, why)));
    for (const watch of this.#watches) watch.lost();
    this.#look();
  }

  /** Everything ends: what is under way fails, and nothing new is taken. */
  close(why: string, error?: MainspringError): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#outbox?.flush();
    this.#outbox = undefined;
    this.#opening = undefined;
    this.#requests.failAll((pending) => error ?? closed(pending, why));
    for (const watch of [...this.#watches]) watch.finish(error);
    this.#watches.clear();
    this.#stopLooking?.();
  }

  /**
   * Takes a line. Never throws on behalf of a caller; what is no message ends the connection, so
   * that is thrown.
   */
  readonly receive = (line: string): void => {
    this.#lastHeard = this.clock.now();
    const message = parseJson(line) as Message;
    switch (message.kind) {
      case "reply":
        this.#requests.settle(message);
        return;
      case "error":
        if (!this.#requests.settle(message)) this.#strayError(message);
        return;
      case "event":
        this.#event(message, line.length);
        return;
      default:
        throw new TypeError(`the daemon wrote something that is no message: ${line.slice(0, 200)}`);
    }
  };

  /** Sends a request; resolves with its reply. */
  request(kind: "command" | "query", type: string, data: unknown, options: RequestOptions): Promise<Message> {
    return new Promise((resolve, reject) => {
      const id = options.id ?? freshId();
      const line = this.#compose(kind, type, data, id, options);
      const repeats = options.repeat !== false;
      const { onProgress } = options;
      const pending: Pending = {
        id,
        type,
        line,
        resolve,
        reject,
        onProgress: onProgress === undefined ? undefined : (event) => onProgress(event.data, event),
        repeats,
        isWritten: this.#outbox !== undefined,
        since: this.clock.now(),
        hasDeadline: options.timeout !== undefined,
      };
      this.#check(pending);
      if (options.signal !== undefined)
        pending.forget = onAbort(options.signal, pending, (error) => this.#cancel(pending, error));
      this.#requests.add(
        pending,
        options.timeout === undefined ? undefined : pending.since + options.timeout + GRACE_MS,
      );
      this.#outbox?.push(line, true);
      if (this.#stopLooking === undefined) this.#look();
    });
  }

  /**
   * Sends an event. Resolves when the daemon has taken it: a refusal comes before the answer to
   * whatever is asked next. With `confirm: false` it resolves when there is room for more, and a
   * refusal is told to nobody.
   */
  emit(
    type: string,
    data: unknown,
    options: { correlation?: string; confirm?: boolean; metadata?: Record<string, unknown> },
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const id = freshId();
      const line = this.#compose("event", type, data, id, options as RequestOptions);
      const outbox = this.#outbox;
      if (outbox === undefined) throw closed({ id, type, isWritten: false }, "there is no connection");
      if (outbox.waiting() + line.length > WAITING_BYTES_MAX)
        throw new OverflowError(`more than ${WAITING_BYTES_MAX} bytes wait to be written`, type);
      if (options.confirm === false) {
        outbox.push(line);
        if (outbox.isFull()) outbox.drained().then(resolve);
        else resolve();
        return;
      }
      // Refused by an error that names it; taken when the ping after it is answered, however.
      const ping = freshId();
      const taken = () => {
        this.#requests.drop(id);
        resolve();
      };
      const pinged = (error: MainspringError) => (error.kind === "outcome" ? taken() : reject(error));
      this.#await(id, type, () => {}, reject);
      this.#await(ping, type, taken, pinged);
      outbox.push(`${line}\n${this.#compose("query", "Syscall.Ping", null, ping, {})}`, true);
      if (this.#stopLooking === undefined) this.#look();
    });
  }

  /** Sends a request that concerns this connection alone. */
  ask(kind: "command" | "query", type: string, data: unknown, options: RequestOptions = {}): Promise<Message> {
    return this.request(kind, type, data, { ...options, repeat: false });
  }

  /** Gives rights up: on this connection, and before anything else on every later one. */
  async restrict(rights: Rights): Promise<Rights> {
    const { data } = await this.ask("command", "Sys.Restrict", rights);
    this.#restriction = { ...this.#restriction, ...rights };
    return data as Rights;
  }

  addWatch(watch: Watch): void {
    if (this.#isClosed) throw closed({ id: "", type: "Sys.Subscribe", isWritten: false }, "the client is closed");
    this.#watches.add(watch);
    if (this.#outbox !== undefined) this.#subscribe(watch);
  }

  /** Ends a watch; types that nobody else watches are not sent any more. */
  removeWatch(watch: Watch): void {
    if (!this.#watches.delete(watch) || this.#outbox === undefined) return;
    const others = new Set([...this.#watches].flatMap((other) => other.types));
    const types = watch.types.filter((type) => !others.has(type));
    if (types.length > 0) this.ask("command", "Sys.Unsubscribe", { types }).catch(() => {});
  }

  #subscribe(watch: Watch): void {
    this.ask("command", "Sys.Subscribe", { types: watch.types }).then(
      () => watch.subscribed(),
      (error: MainspringError) => {
        // A lost connection: the next one subscribes again.
        if (error.kind !== "outcome") return;
        this.#watches.delete(watch);
        watch.finish(error);
      },
    );
  }

  /** Waits for what answers a message of this connection that is not repeated. */
  #await(id: string, type: string, resolve: (reply: Message) => void, reject: (error: MainspringError) => void): void {
    const pending = this.#unrepeated(id, type, resolve, reject);
    this.#check(pending);
    this.#requests.add(pending, undefined);
  }

  #unrepeated(id: string, type: string, resolve: Pending["resolve"], reject: Pending["reject"]): Pending {
    const since = this.clock.now();
    return { id, type, line: "", resolve, reject, repeats: false, isWritten: true, since, hasDeadline: false };
  }

  #check(pending: Pending): void {
    if (this.#isClosed) throw closed(pending, "the client is closed");
    if (this.#outbox === undefined && !pending.repeats) throw closed(pending, "there is no connection");
    if (this.#requests.has(pending.id))
      throw new InvalidMessageError(`a request with the id ${JSON.stringify(pending.id)} is under way`, pending.type);
    if (this.#requests.size >= REQUESTS_MAX)
      throw new OverflowError(`${REQUESTS_MAX} requests are under way`, pending.type);
    const waiting = Math.max(this.#requests.bytes, this.#outbox?.waiting() ?? 0);
    if (waiting + pending.line.length > WAITING_BYTES_MAX) {
      throw new OverflowError(`requests of more than ${WAITING_BYTES_MAX} bytes are under way`, pending.type);
    }
  }

  #compose(kind: string, type: string, data: unknown, id: string, options: RequestOptions): string {
    if (!isType(type))
      throw new InvalidMessageError(
        `${JSON.stringify(type)} is no type: it needs two or more names with a capital letter, joined by dots`,
      );
    try {
      let more = "";
      if (options.timeout !== undefined) more += `,"timeout":${timeoutOf(options.timeout)}`;
      if (options.correlation !== undefined) more += `,"correlation":${JSON.stringify(options.correlation)}`;
      if (options.onProgress !== undefined) more += ',"progress":true';
      for (const [name, value] of Object.entries(options.metadata ?? {}))
        more += `,${JSON.stringify(name)}:${stringifyJson(value)}`;
      return `{"kind":"${kind}","type":"${type}","data":${stringifyJson(data)},"metadata":{"id":${JSON.stringify(id)},"timestamp":${this.clock.wall()}${more}}}`;
    } catch (error) {
      if (error instanceof InvalidMessageError) throw error;
      throw new InvalidMessageError(`${kind} ${type} cannot be sent: ${(error as Error).message}`, type, error);
    }
  }

  /**
   * The caller gave it up. A daemon that knows `Syscall.Cancel` ends it for good; another answers
   * 404, which nobody reads.
   */
  #cancel(pending: Pending, error: MainspringError): void {
    this.#requests.fail(pending.id, error);
    if (this.#outbox !== undefined && pending.isWritten)
      this.ask("command", "Syscall.Cancel", { id: pending.id }).catch(() => {});
  }

  #event(event: Message, length: number): void {
    const cause = event.metadata.causation;
    if (cause !== undefined && event.type.endsWith(".Progress")) this.#requests.get(cause)?.onProgress?.(event);
    if (event.type === "Sys.EventsDropped") {
      const { count } = event.data as { count?: number };
      for (const watch of this.#watches) watch.gap("daemon", count ?? null);
    }
    for (const watch of this.#watches) watch.offer(event, length);
  }

  /**
   * An error that answers no request: about the connection, or about a line whose id the daemon
   * could not read.
   */
  #strayError(error: Message): void {
    const data = (error.data ?? {}) as { code?: number; message?: string; originalId?: unknown };
    if (error.metadata.causation === CONNECTION) {
      const words = `the daemon refused the connection (${data.code ?? "no code"}): ${data.message ?? "it does not say why"}`;
      this.#refusal = new ConnectError(words, error.data);
      return;
    }
    if (data.originalId !== null) return;
    // A line that was too long to be read, for one: the longest that was sent is the likeliest.
    let longest: Pending | undefined;
    for (const pending of this.#requests.values()) {
      if (pending.isWritten && pending.line.length > (longest?.line.length ?? 0)) longest = pending;
    }
    if (longest !== undefined) this.#requests.fail(longest.id, new RequestError(error, longest));
  }

  /**
   * Looks after silence, and after requests that wait for a connection that does not come. One
   * timer, and none while idle.
   */
  #look(): void {
    this.#stopLooking?.();
    const lostAt = this.#lostAt;
    const wait = lostAt === undefined ? this.#lastHeard + SILENCE_MS - this.clock.now() : 1000;
    this.#stopLooking = this.clock.after(Math.max(wait, 1), () => {
      this.#stopLooking = undefined;
      if (this.#requests.size === 0) return;
      if (lostAt !== undefined && this.#lostAt === lostAt) this.#giveUp(lostAt);
      else if (this.clock.now() - this.#lastHeard >= SILENCE_MS) return this.#probe();
      if (this.#requests.size > 0) this.#look();
    });
  }

  #giveUp(lostAt: number): void {
    const now = this.clock.now();
    this.#requests.failAll((pending) => {
      const isDue = !pending.hasDeadline && now - Math.max(pending.since, lostAt) >= SILENCE_MS + GRACE_MS;
      return isDue ? closed(pending, `no connection for ${(SILENCE_MS + GRACE_MS) / 1000} s`) : undefined;
    });
  }

  #probe(): void {
    const asked = this.clock.now();
    this.#stopLooking = this.clock.after(GRACE_MS, () => {
      this.#stopLooking = undefined;
      if (this.#outbox !== undefined && this.#lastHeard < asked) this.#outlets.onSilent?.();
      if (this.#requests.size > 0 && this.#stopLooking === undefined) this.#look();
    });
    this.ask("query", "Syscall.Ping", null).catch(() => {});
  }
}
