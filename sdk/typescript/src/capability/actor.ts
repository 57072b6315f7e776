/**
 * Capabilities as RFC 0032 writes them: an object with schemas of whole messages, and an actor in
 * the shape of a Web Worker. They run unchanged.
 */
import process from "node:process";
import { Outbox, type Wire } from "../core/outbox.ts";
import { parseJson, stringifyJson } from "../message/json.ts";
import type { Message } from "../message/message.ts";
import type { RunOptions } from "./capability.ts";
import type { Manifest } from "./manifest.ts";
import { type Server, printed, serve } from "./run.ts";
import { type Schema, toJsonSchema } from "./schema.ts";

/**
 * An actor: messages go in by `postMessage` and come out as `message` events (RFC 0032, 11.2).
 * Events are `any` here, because not every program has the types of the Web.
 */
export interface CapabilityActor {
  postMessage(message: any): void;
  onmessage: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  terminate(): void;
  addEventListener?(type: string, listener: any): void;
}

/** A capability as RFC 0032 (11.1) has it; with `factory` instead of `spawn`, as RFC 0031 does. */
export interface ActorCapability {
  description: string;
  inbound: Schema;
  outbound?: Schema | undefined;
  subscribes?: readonly string[] | undefined;
  spawn?: (() => CapabilityActor) | undefined;
  factory?: (() => { readable: any; writable: any }) | undefined;
}

/** Whether a value is a capability of RFC 0032 or 0031. */
export function isActorCapability(value: unknown): value is ActorCapability {
  const it = value as ActorCapability | null | undefined;
  return (
    typeof it === "object" &&
    it !== null &&
    (typeof it.spawn === "function" || typeof it.factory === "function") &&
    it.inbound !== undefined
  );
}

/** Its manifest. The schemas are those of whole messages already. */
export async function manifestOfActor(capability: ActorCapability, id: string): Promise<Manifest> {
  const manifest: Manifest = {
    id,
    description: capability.description,
    inbound: await toJsonSchema(capability.inbound, "input", "inbound"),
  };
  if (capability.outbound !== undefined)
    manifest.outbound = await toJsonSchema(capability.outbound, "output", "outbound");
  if (capability.subscribes !== undefined && capability.subscribes.length > 0)
    manifest.subscribes = [...capability.subscribes];
  return manifest;
}

/** Serves the daemon with it by standard input and output, until the input ends. */
export async function runActor(capability: ActorCapability, options: RunOptions & { id: string }): Promise<void> {
  provideErrorEvent();
  if (await printed(() => manifestOfActor(capability, options.id))) return;
  await serve((stdio, log) => {
    // An actor that throws has crashed: the daemon restarts it, and tells whoever waits.
    const onCrash = (error: unknown) => {
      process.stderr.write(
        `the actor failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
      );
      process.exit(1);
    };
    return new ActorServer(capability, stdio.wire, log, onCrash);
  }, options);
}

/**
 * How long an actor may take for what it has once its input has ended. The daemon's own patience is
 * 5 s as shipped.
 */
const END_MS = 4000;

/** Carries lines to an actor, and its messages back. */
export class ActorServer implements Server {
  readonly #outbox: Outbox;
  readonly #log: (line: string) => void;
  readonly #actor: Pick<CapabilityActor, "postMessage" | "terminate">;
  /** Requests that the actor has not answered yet. */
  readonly #unanswered = new Set<string>();
  readonly #seen = new WeakSet<object>();
  #whenIdle: (() => void) | undefined;

  constructor(capability: ActorCapability, wire: Wire, log: (line: string) => void, onCrash: (error: unknown) => void) {
    this.#outbox = new Outbox(wire);
    this.#log = log;
    this.#actor =
      capability.spawn === undefined
        ? streamActor(capability, (message) => this.#say(message), onCrash)
        : this.#attach(capability.spawn(), onCrash);
  }

  readonly receive = (line: string): void => {
    let message: Message;
    try {
      message = parseJson(line) as Message;
      if (typeof message.metadata.id !== "string") throw new TypeError("it is no message");
    } catch (error) {
      this.#log(`cannot read a line: ${(error as Error).message}`);
      return;
    }
    if (message.kind === "command" || message.kind === "query") this.#unanswered.add(message.metadata.id);
    this.#actor.postMessage(message);
  };

  wantsInput(): boolean {
    return !this.#outbox.isFull();
  }

  async end(): Promise<void> {
    if (this.#unanswered.size > 0) {
      await new Promise<void>((done) => {
        this.#whenIdle = done;
        setTimeout(done, END_MS).unref?.();
      });
    }
    this.#actor.terminate();
    await this.#outbox.drained();
  }

  abort(): void {
    this.#unanswered.clear();
  }

  /**
   * Listens as a Worker's owner does. An actor may call `onmessage`, its listeners, or both for one
   * event.
   */
  #attach(actor: CapabilityActor, onCrash: (error: unknown) => void): CapabilityActor {
    const onMessage = (event: Event) => {
      if (this.#seen.has(event)) return;
      this.#seen.add(event);
      this.#say((event as MessageEvent<Message>).data);
    };
    const onError = (event: Event) => onCrash((event as ErrorEvent).error ?? (event as ErrorEvent).message ?? event);
    actor.onmessage = onMessage;
    actor.onerror = onError;
    actor.addEventListener?.("message", onMessage);
    actor.addEventListener?.("error", onError);
    return actor;
  }

  #say(message: Message): void {
    this.#outbox.push(stringifyJson(message), true);
    if (message.kind !== "reply" && message.kind !== "error") return;
    this.#unanswered.delete(message.metadata?.causation ?? "");
    if (this.#unanswered.size === 0) this.#whenIdle?.();
  }
}

/** RFC 0031's shape: a stream that messages pass through. */
function streamActor(
  capability: ActorCapability,
  say: (message: Message) => void,
  onCrash: (error: unknown) => void,
): Pick<CapabilityActor, "postMessage" | "terminate"> {
  const { readable, writable } = capability.factory!() as TransformStream<Message, Message>;
  const writer = writable.getWriter();
  const reader = readable.getReader();
  let isOver = false;
  const pump = async () => {
    for (let next = await reader.read(); !next.done; next = await reader.read()) say(next.value);
  };
  const crashed = (error: unknown) => {
    if (!isOver) onCrash(error);
  };
  pump().catch(crashed);
  return {
    postMessage: (message) => void writer.write(message).catch(crashed),
    terminate() {
      isOver = true;
      writer.close().catch(() => {});
    },
  };
}

/** Node 20 has no `ErrorEvent`, which the actors of the RFC make. */
export function provideErrorEvent(): void {
  if (typeof globalThis.ErrorEvent !== "undefined") return;
  class ErrorEvent extends Event {
    readonly error: unknown;
    readonly message: string;
    constructor(type: string, init: { error?: unknown; message?: string } = {}) {
      super(type);
      this.error = init.error;
      this.message = init.message ?? (init.error instanceof Error ? init.error.message : "");
    }
  }
  Object.defineProperty(globalThis, "ErrorEvent", { value: ErrorEvent, configurable: true, writable: true });
}
