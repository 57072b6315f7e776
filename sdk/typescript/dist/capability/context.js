import { CancelledError } from "../errors.js";
/**
 * How much later than the deadline a handler is told of it: the daemon's own word about a timeout
 * says more than ours.
 */
const DEADLINE_SLACK_MS = 250;
/**
 * What a handler gets. Members can be taken apart: `async ({ data, ask, emit, log, signal, deadline
 * }) => ...`. What is not asked for is not made.
 */
export class Context {
    /** What the request or event says, as its schema made it. */
    data;
    /** The whole message, as it came. */
    message;
    #core;
    #controller;
    #aborted;
    #stopTimer;
    constructor(core, message) {
        this.#core = core;
        this.message = message;
        this.data = message.data;
    }
    get id() {
        return this.message.metadata.id;
    }
    get kind() {
        return this.message.kind;
    }
    get type() {
        return this.message.type;
    }
    /**
     * The workflow that the message belongs to, if any. Whatever is sent here belongs to the same.
     */
    get correlation() {
        return this.message.metadata.correlation;
    }
    /**
     * When the requester stops waiting, in milliseconds since 1970; undefined if the request does not
     * say. A clock that is plainly not ours (a timestamp of 0, say) does not count: then it is that
     * long from now.
     */
    get deadline() {
        const { timestamp, timeout } = this.message.metadata;
        if (typeof timeout !== "number")
            return undefined;
        const now = this.#core.clock.wall();
        const isOurs = timestamp <= now && timestamp + timeout > now;
        return (isOurs ? timestamp : now) + timeout;
    }
    /**
     * Aborted when the request is cancelled, its deadline passes, or the daemon wants the program to
     * end.
     */
    get signal() {
        if (this.#controller === undefined) {
            this.#controller = new AbortController();
            if (this.#aborted !== undefined)
                this.#controller.abort(this.#aborted);
            else
                this.#watchDeadline();
        }
        return this.#controller.signal;
    }
    /** Sends a request to another capability: a query, unless its options say `kind: "command"`. */
    get ask() {
        return (type, data, options = {}) => this.#core.ask(type, data, options, this).then((reply) => reply.data);
    }
    /** Sends a command to another capability. */
    get send() {
        return (type, data, options = {}) => this.ask(type, data, { ...options, kind: "command" });
    }
    /** Sends a query to another capability. */
    get query() {
        return (type, data, options = {}) => this.ask(type, data, { ...options, kind: "query" });
    }
    /** Sends an event that this message caused. */
    get emit() {
        return ((type, data) => this.#core.emit(type, data, this.id));
    }
    /** Tells the requester how far it is, if that asked to be told: the event `<type>.Progress`. */
    get progress() {
        return (data) => this.#core.emit(`${this.type}.Progress`, data, this.id);
    }
    /** Writes a line to the log of the daemon, by standard error. */
    get log() {
        return this.#core.log;
    }
    /** Ends the work on it: what listens on `signal` is told. */
    abort(reason) {
        if (this.#aborted !== undefined)
            return;
        this.#aborted = reason;
        this.#controller?.abort(reason);
    }
    isAborted() {
        return this.#aborted !== undefined;
    }
    /** The work has ended: nothing may fire any more. */
    finish() {
        this.#stopTimer?.();
    }
    #watchDeadline() {
        const deadline = this.deadline;
        if (deadline === undefined)
            return;
        const clock = this.#core.clock;
        const details = { code: 504, originalId: this.id, originalType: this.type };
        this.#stopTimer = clock.after(deadline - clock.wall() + DEADLINE_SLACK_MS, () => {
            this.abort(new CancelledError(`${this.type} took longer than its requester waits`, details));
        });
    }
}
