import type { Clock } from "../core/clock.ts";
import type { Wire } from "../core/outbox.ts";
import { isType } from "../message/message.ts";
import type { Context } from "./context.ts";
import { CapabilityCore, type Registration } from "./core.ts";
import { type Manifest, makeManifest } from "./manifest.ts";
import type { InputOf, OutputOf, Schema } from "./schema.ts";

/** What a capability says about itself. */
export interface CapabilityOptions {
  /** The name, unique in the daemon. */
  id: string;
  /** What it does, for people and language models. */
  description?: string | undefined;
  /** The events that it emits, with their schemas. If given, no other event can be emitted. */
  emits?: Record<string, Schema> | undefined;
  /** The types of the requests that it sends to others. If given, the daemon holds it to them. */
  asks?: readonly string[] | undefined;
  /** Whether it may emit events that no message caused. */
  uncaused?: boolean | undefined;
  /**
   * Whether it wants to be told of cancelled requests, by `signal`. Needs a daemon that knows
   * `cancel`.
   */
  cancel?: boolean | undefined;
  /** How many requests it works on at a time. The daemon's manifest has the last word. */
  concurrency?: number | undefined;
  /** How many events it works on at a time; 1, in their order, if absent. */
  eventsAtOnce?: number | undefined;
  /** The longest line that the daemon takes (its `limits.line_bytes_max`); 1 MiB if absent. */
  lineBytesMax?: number | undefined;
}

/** What is declared about a command or query. */
export interface RequestSpec<Input extends Schema | undefined, Output extends Schema | undefined> {
  /** What its data must look like. */
  input?: Input;
  /** What the data of its reply looks like. */
  output?: Output;
  /** What it does, for people and language models. */
  description?: string;
  /** Data that it takes, as examples. */
  examples?: readonly unknown[];
  /**
   * What else people and language models should know. Needs a daemon whose manifests know `types`.
   */
  hints?: Hints;
}

/** What is said about a type besides its schemas. What is absent is as careful as can be. */
export interface Hints {
  /** A name for people. */
  title?: string;
  /** Whether it changes nothing. A query does not, unless it says otherwise. */
  readOnly?: boolean;
  /** Whether it may undo or delete something. */
  destructive?: boolean;
  /** Whether doing it twice is the same as doing it once. */
  idempotent?: boolean;
  /** Whether it reaches beyond this daemon. */
  openWorld?: boolean;
  /** Whether it should not be used any more. */
  deprecated?: boolean;
}

/** What is declared about an event that it wants. */
export interface EventSpec<Input extends Schema | undefined> {
  /** What its data must look like; events that do not fit are not taken. */
  input?: Input;
  description?: string;
}

type Data<S> = S extends Schema ? OutputOf<S> : any;
type Answer<S> = S extends Schema ? InputOf<S> : unknown;
type RequestHandler<I, O, E> = (context: Context<Data<I>, E>) => Answer<O> | Promise<Answer<O>>;
type EventHandler<I, E> = (context: Context<Data<I>, E>) => unknown;

/** How `run` behaves; what is absent is right for a program that the daemon starts. */
export interface RunOptions {
  /** Whether the process ends when its input has; true if absent. */
  exit?: boolean;
}

/** A capability: handlers of commands, queries and events. Made by `capability`. */
export class Capability<Events = Record<string, Schema>> {
  readonly options: CapabilityOptions;
  readonly #registrations: Registration[] = [];
  #core: CapabilityCore | undefined;

  constructor(options: CapabilityOptions) {
    if (typeof options.id !== "string" || options.id === "") throw new TypeError("a capability needs an id");
    this.options = options;
  }

  /**
   * Handles a command: something that is to be done. What the handler returns is the reply; what it
   * throws, an error.
   */
  command(type: string, handler: RequestHandler<undefined, undefined, Events>): this;
  command<I extends Schema | undefined = undefined, O extends Schema | undefined = undefined>(
    type: string,
    spec: RequestSpec<I, O>,
    handler: RequestHandler<I, O, Events>,
  ): this;
  command(type: string, ...rest: unknown[]): this {
    return this.#register("command", type, rest);
  }

  /** Handles a query: something that is to be told, and changes nothing. */
  query(type: string, handler: RequestHandler<undefined, undefined, Events>): this;
  query<I extends Schema | undefined = undefined, O extends Schema | undefined = undefined>(
    type: string,
    spec: RequestSpec<I, O>,
    handler: RequestHandler<I, O, Events>,
  ): this;
  query(type: string, ...rest: unknown[]): this {
    return this.#register("query", type, rest);
  }

  /**
   * Handles an event. Events come one after another, in their order, unless `eventsAtOnce` says
   * otherwise.
   */
  on(type: string, handler: EventHandler<undefined, Events>): this;
  on<I extends Schema | undefined = undefined>(
    type: string,
    spec: EventSpec<I>,
    handler: EventHandler<I, Events>,
  ): this;
  on(type: string, ...rest: unknown[]): this {
    return this.#register("event", type, rest);
  }

  /**
   * Emits an event that no message caused: a sensor, a clock. Needs `uncaused: true`, and that it
   * runs.
   */
  emit(type: string, data?: unknown): Promise<void> {
    if (this.#core === undefined)
      throw new Error(`capability ${this.options.id} does not run: nobody would hear ${type}`);
    return this.#core.emit(type, data, undefined);
  }

  /** Its manifest, made from what was declared: what `--manifest` prints. */
  manifest(): Promise<Manifest> {
    return makeManifest(this.options, this.#registrations);
  }

  /**
   * Serves the daemon by standard input and output, until the input ends. With `--manifest` or
   * `--schema` as the first argument of the program it prints that instead.
   */
  async run(options: RunOptions = {}): Promise<void> {
    const { runCapability } = await import("./run.ts");
    return runCapability(this, options);
  }

  /**
   * The same, if this file is the program and not imported by another (its test, say).
   *
   * @example
   * await app.runIfMain(import.meta);
   */
  async runIfMain(meta: { url: string; main?: boolean }, options: RunOptions = {}): Promise<void> {
    const { isMain } = await import("./run.ts");
    if (isMain(meta)) await this.run(options);
  }

  /** The same without any input or output, for tests and other transports. */
  start(outlets: { wire: Wire; log: (line: string) => void; clock?: Clock; onReady?: () => void }): CapabilityCore {
    this.#core = new CapabilityCore(this.options, this.#registrations, outlets);
    return this.#core;
  }

  /** The kinds and types that it handles. */
  get handles(): { kind: Registration["kind"]; type: string }[] {
    return this.#registrations.map(({ kind, type }) => ({ kind, type }));
  }

  #register(kind: Registration["kind"], type: string, rest: unknown[]): this {
    const [spec, handler] = rest.length === 1 ? [{}, rest[0]] : rest;
    const what = `${kind} ${type}`;
    if (!isType(type))
      throw new TypeError(`${what}: a type has two or more names with a capital letter, joined by dots`);
    if (typeof handler !== "function") throw new TypeError(`${what}: the handler is no function`);
    if (this.#registrations.some((each) => each.kind === kind && each.type === type))
      throw new TypeError(`${what} has a handler already`);
    const { input, output, description, examples, hints } = spec as RequestSpec<Schema, Schema>;
    this.#registrations.push({
      kind,
      type,
      input,
      output,
      description,
      examples,
      hints,
      handler: handler as Registration["handler"],
    });
    return this;
  }
}

/**
 * Begins a capability.
 *
 * @example
 * await capability({ id: "greeter" }) .query("App.Greet", { input: z.object({ name: z.string() })
 *   }, ({ data }) => ({ text: `Hello, ${data.name}!` })) .run();
 */
export function capability<const Events extends Record<string, Schema> = Record<string, Schema>>(
  options: CapabilityOptions & { emits?: Events | undefined },
): Capability<Events> {
  return new Capability<Events>(options);
}
