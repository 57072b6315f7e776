import { Client } from "./client/client.js";
import { ClientCore } from "./client/core.js";
import { VirtualClock, settle, systemClock } from "./core/clock.js";
import { Failure } from "./errors.js";
import { freshId } from "./message/ids.js";
import { parseJson, stringifyJson } from "./message/json.js";
import { matches } from "./message/message.js";
export { VirtualClock } from "./core/clock.js";
const TIMEOUT_MS = 30_000;
const RESERVED = /^(Sys|Syscall|Timer|Kernel)\./;
/** A daemon in memory. */
export class TestDaemon {
    /** Every event that a capability emitted, oldest first. */
    events = [];
    /** What capabilities wrote to their log. */
    logs = [];
    /** The rules that capabilities broke; the real daemon would have restarted them. */
    faults = [];
    #clock;
    #peers = [];
    #stubs = new Map();
    #open = new Map();
    #client;
    constructor(options = {}) {
        this.#clock = options.clock ?? systemClock;
        this.#client = this.connect();
    }
    /** Runs a capability. */
    add(capability) {
        const peer = { receive: () => { }, patterns: new Set(), capability };
        const wire = this.#wire(peer);
        peer.core = capability.start({ wire, log: (line) => this.logs.push(line), clock: this.#clock });
        peer.receive = peer.core.receive;
        for (const { kind, type } of capability.handles)
            if (kind === "event")
                peer.patterns.add(type);
        this.#peers.push(peer);
        return this;
    }
    /** Answers commands and queries of a type. */
    handle(type, stub) {
        this.#stubs.set(type, stub);
        return this;
    }
    /** A client of it, for code that takes one. */
    connect() {
        const core = new ClientCore({ clock: this.#clock });
        const peer = { receive: core.receive, patterns: new Set() };
        this.#peers.push(peer);
        core.open(this.#wire(peer));
        return new Client(core, {
            close: async () => {
                this.#peers.splice(this.#peers.indexOf(peer), 1);
            },
        });
    }
    /** Sends a command, and gives the data of its reply. */
    send(type, data, options) {
        return this.#client.send(type, data, options);
    }
    /** Sends a query, and gives the data of its reply. */
    query(type, data, options) {
        return this.#client.query(type, data, options);
    }
    /** Sends an event; resolves when the handlers have it and have done what needs no waiting. */
    async emit(type, data) {
        await this.#client.emit(type, data);
        await settle();
    }
    /** Lets virtual time pass. */
    async advance(ms) {
        if (!(this.#clock instanceof VirtualClock))
            throw new TypeError("time passes by itself here; make the daemon with a VirtualClock");
        await this.#clock.advance(ms);
    }
    /** Ends it: the input of each capability ends, and what they have is finished. */
    async close() {
        await Promise.all(this.#peers.map((peer) => peer.core?.end()));
        for (const open of this.#open.values())
            open.stopTimer();
        await this.#client.close();
    }
    #wire(peer) {
        return {
            send: (text) => {
                for (const line of text.split("\n"))
                    if (line !== "")
                        this.#said(peer, parseJson(line));
            },
            waiting: () => 0,
            whenEmpty: (call) => queueMicrotask(call),
        };
    }
    #said(from, message) {
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
    #request(from, request) {
        const timeout = request.metadata.timeout ?? TIMEOUT_MS;
        const open = { request, from, to: undefined, stopTimer: () => { } };
        this.#open.set(request.metadata.id, open);
        if (this.#builtIn(open))
            return;
        const stub = this.#stubs.get(request.type);
        open.to = this.#peers.find((peer) => peer.capability?.handles.some((each) => each.kind === request.kind && each.type === request.type));
        if (stub === undefined && open.to === undefined) {
            return this.#error(open, "Sys.RoutingError", 404, `nobody handles ${request.kind} ${request.type}`, "no");
        }
        open.stopTimer = this.#clock.after(timeout, () => this.#error(open, "Sys.Timeout", 504, `no outcome within ${timeout} ms`, "yes"));
        if (stub !== undefined)
            void this.#answer(open, stub);
        else
            this.#deliver(open.to, request);
    }
    #builtIn(open) {
        const { request, from } = open;
        const { types, id } = (request.data ?? {});
        switch (request.type) {
            case "Syscall.Ping":
                this.#reply(open, request.data);
                return true;
            case "Sys.Subscribe":
                for (const type of types ?? [])
                    from.patterns.add(type);
                this.#reply(open, { types });
                return true;
            case "Sys.Unsubscribe":
                for (const type of types ?? [...from.patterns])
                    from.patterns.delete(type);
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
    #cancel(from, id) {
        const open = this.#open.get(id);
        if (open === undefined || open.from !== from)
            return;
        if (open.to !== undefined)
            this.#deliver(open.to, this.#make("event", "Sys.RequestCancelled", { originalId: id }, id));
        this.#error(open, "Sys.Cancelled", 499, "the requester cancelled it", "yes");
    }
    async #answer(open, stub) {
        const { request } = open;
        try {
            const data = await stub(request.data, request);
            if (this.#isOpen(open))
                this.#reply(open, data);
        }
        catch (error) {
            const code = error instanceof Failure ? error.code : 500;
            const data = { code, message: error.message };
            if (this.#isOpen(open))
                this.#end(open, this.#make("error", request.type, data, request.metadata.id));
        }
    }
    #event(from, event) {
        if (from.capability !== undefined) {
            this.events.push(event);
            const isCaused = event.metadata.causation !== undefined || from.capability.options.uncaused === true;
            if (!isCaused)
                this.#fault(from, `event ${event.type} without a cause`);
        }
        if (RESERVED.test(event.type))
            return this.#fault(from, `the event ${event.type}, whose type is reserved`);
        const open = this.#open.get(event.metadata.causation ?? "");
        const isProgress = event.type.endsWith(".Progress") && open?.request.metadata["progress"] === true;
        for (const peer of this.#peers) {
            const isWanted = [...peer.patterns].some((pattern) => matches(pattern, event.type));
            if (isWanted || (isProgress && peer === open?.from))
                this.#deliver(peer, event);
        }
    }
    #outcome(from, outcome) {
        const id = outcome.metadata.causation ?? "";
        const open = this.#open.get(id);
        // Late, because the request timed out or was cancelled: no fault.
        if (open === undefined || open.to !== from)
            return;
        if (outcome.type !== open.request.type)
            this.#fault(from, `${outcome.kind} ${outcome.type} for ${open.request.type}`);
        this.#end(open, outcome);
    }
    #fault(from, words) {
        this.faults.push(`${from.capability?.options.id ?? "a client"}: ${words}`);
    }
    #isOpen(open) {
        return this.#open.get(open.request.metadata.id) === open;
    }
    #reply(open, data) {
        this.#end(open, this.#make("reply", open.request.type, data, open.request.metadata.id));
    }
    #error(open, type, code, message, started) {
        const { id } = open.request.metadata;
        this.#end(open, this.#make("error", type, { code, message, originalId: id, originalType: open.request.type, started }, id));
    }
    #end(open, outcome) {
        open.stopTimer();
        if (this.#isOpen(open))
            this.#open.delete(open.request.metadata.id);
        this.#deliver(open.from, outcome);
    }
    #make(kind, type, data, causation) {
        return { kind, type, data: data ?? null, metadata: { id: freshId(), timestamp: this.#clock.wall(), causation } };
    }
    /**
     * As a line, so that nobody shares data with anybody, and what JSON cannot carry does not arrive.
     */
    #deliver(peer, message) {
        const line = stringifyJson(message);
        queueMicrotask(() => peer.receive(line));
    }
}
/** A daemon in memory that runs these capabilities. */
export function createTestDaemon(...capabilities) {
    const daemon = new TestDaemon();
    for (const each of capabilities)
        daemon.add(each);
    return daemon;
}
