/**
 * Capabilities as RFC 0032 writes them: an object with schemas of whole messages, and an actor in
 * the shape of a Web Worker. They run unchanged.
 */
import process from "node:process";
import { Outbox } from "../core/outbox.js";
import { parseJson, stringifyJson } from "../message/json.js";
import { printed, serve } from "./run.js";
import { toJsonSchema } from "./schema.js";
/** Whether a value is a capability of RFC 0032 or 0031. */
export function isActorCapability(value) {
    const it = value;
    return (typeof it === "object" &&
        it !== null &&
        (typeof it.spawn === "function" || typeof it.factory === "function") &&
        it.inbound !== undefined);
}
/** Its manifest. The schemas are those of whole messages already. */
export async function manifestOfActor(capability, id) {
    const manifest = {
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
export async function runActor(capability, options) {
    provideErrorEvent();
    if (await printed(() => manifestOfActor(capability, options.id)))
        return;
    await serve((stdio, log) => {
        // An actor that throws has crashed: the daemon restarts it, and tells whoever waits.
        const onCrash = (error) => {
            process.stderr.write(`the actor failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
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
export class ActorServer {
    #outbox;
    #log;
    #actor;
    /** Requests that the actor has not answered yet. */
    #unanswered = new Set();
    #seen = new WeakSet();
    #whenIdle;
    constructor(capability, wire, log, onCrash) {
        this.#outbox = new Outbox(wire);
        this.#log = log;
        this.#actor =
            capability.spawn === undefined
                ? streamActor(capability, (message) => this.#say(message), onCrash)
                : this.#attach(capability.spawn(), onCrash);
    }
    receive = (line) => {
        let message;
        try {
            message = parseJson(line);
            if (typeof message.metadata.id !== "string")
                throw new TypeError("it is no message");
        }
        catch (error) {
            this.#log(`cannot read a line: ${error.message}`);
            return;
        }
        if (message.kind === "command" || message.kind === "query")
            this.#unanswered.add(message.metadata.id);
        this.#actor.postMessage(message);
    };
    wantsInput() {
        return !this.#outbox.isFull();
    }
    async end() {
        if (this.#unanswered.size > 0) {
            await new Promise((done) => {
                this.#whenIdle = done;
                setTimeout(done, END_MS).unref?.();
            });
        }
        this.#actor.terminate();
        await this.#outbox.drained();
    }
    abort() {
        this.#unanswered.clear();
    }
    /**
     * Listens as a Worker's owner does. An actor may call `onmessage`, its listeners, or both for one
     * event.
     */
    #attach(actor, onCrash) {
        const onMessage = (event) => {
            if (this.#seen.has(event))
                return;
            this.#seen.add(event);
            this.#say(event.data);
        };
        const onError = (event) => onCrash(event.error ?? event.message ?? event);
        actor.onmessage = onMessage;
        actor.onerror = onError;
        actor.addEventListener?.("message", onMessage);
        actor.addEventListener?.("error", onError);
        return actor;
    }
    #say(message) {
        this.#outbox.push(stringifyJson(message), true);
        if (message.kind !== "reply" && message.kind !== "error")
            return;
        this.#unanswered.delete(message.metadata?.causation ?? "");
        if (this.#unanswered.size === 0)
            this.#whenIdle?.();
    }
}
/** RFC 0031's shape: a stream that messages pass through. */
function streamActor(capability, say, onCrash) {
    const { readable, writable } = capability.factory();
    const writer = writable.getWriter();
    const reader = readable.getReader();
    let isOver = false;
    const pump = async () => {
        for (let next = await reader.read(); !next.done; next = await reader.read())
            say(next.value);
    };
    const crashed = (error) => {
        if (!isOver)
            onCrash(error);
    };
    pump().catch(crashed);
    return {
        postMessage: (message) => void writer.write(message).catch(crashed),
        terminate() {
            isOver = true;
            writer.close().catch(() => { });
        },
    };
}
/** Node 20 has no `ErrorEvent`, which the actors of the RFC make. */
export function provideErrorEvent() {
    if (typeof globalThis.ErrorEvent !== "undefined")
        return;
    class ErrorEvent extends Event {
        error;
        message;
        constructor(type, init = {}) {
            super(type);
            this.error = init.error;
            this.message = init.message ?? (init.error instanceof Error ? init.error.message : "");
        }
    }
    Object.defineProperty(globalThis, "ErrorEvent", { value: ErrorEvent, configurable: true, writable: true });
}
