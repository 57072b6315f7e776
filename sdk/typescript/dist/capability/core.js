/**
 * What a capability does with lines, apart from where they come from: handlers, outcomes, questions
 * of its own, and its end.
 */
import { format } from "node:util";
import { Buffer } from "node:buffer";
import { systemClock } from "../core/clock.js";
import { Outbox } from "../core/outbox.js";
import { GRACE_MS, Requests, closed, onAbort, timeoutOf } from "../core/requests.js";
import { CancelledError, ClosedError, Failure, InvalidMessageError, OverflowError } from "../errors.js";
import { freshId } from "../message/ids.js";
import { parseJson, stringifyJson } from "../message/json.js";
import { isType } from "../message/message.js";
import { Context } from "./context.js";
import { EventQueue } from "./events.js";
import { invoke, isPromise } from "./invoke.js";
/**
 * The longest line that a daemon takes, as shipped (`limits.line_bytes_max`). A longer one would be
 * a fault.
 */
export const LINE_BYTES_MAX = 1024 * 1024;
/** Questions of its own under way at a time. */
const ASKS_MAX = 16_384;
/** The beginning of a bad line that is quoted. */
const QUOTE_LENGTH = 80;
export class CapabilityCore {
    options;
    clock;
    outbox;
    #outlets;
    #handlers = new Map();
    #lineBytesMax;
    /** Requests in progress, by id. */
    #running = new Map();
    #asks;
    #events;
    #isEnding = false;
    #whenIdle;
    constructor(options, registrations, outlets) {
        this.options = options;
        this.clock = outlets.clock ?? systemClock;
        this.outbox = new Outbox(outlets.wire);
        this.#outlets = outlets;
        this.#lineBytesMax = options.lineBytesMax ?? LINE_BYTES_MAX;
        this.#asks = new Requests(this.clock);
        this.#events = new EventQueue(options.eventsAtOnce ?? 1, (message) => this.#runEvent(message), () => this.#outlets.onReady?.());
        for (const each of registrations)
            this.#handlers.set(`${each.kind} ${each.type}`, each);
    }
    /**
     * Takes a line of input. Never throws: what is wrong with a line is told, and the next one
     * counts.
     */
    receive = (line) => {
        let message;
        try {
            message = parseJson(line);
            if (typeof message.metadata.id !== "string" || typeof message.type !== "string")
                throw new TypeError("it is no message");
        }
        catch (error) {
            this.log(`cannot read a line: ${error.message}: ${JSON.stringify(line.slice(0, QUOTE_LENGTH))}`);
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
    wantsInput() {
        return !this.outbox.isFull() && !this.#events.isFull();
    }
    /** No more lines will come: resolves when everything that was begun has ended and is written. */
    async end() {
        this.#isEnding = true;
        // No answer can come any more.
        this.#asks.failAll((pending) => closed(pending, "the daemon ended the input"));
        while (this.#running.size > 0 || this.#events.isBusy()) {
            await new Promise((done) => {
                this.#whenIdle = done;
            });
        }
        await this.outbox.drained();
    }
    /** Asks everything in progress to stop. */
    abort(reason) {
        for (const context of this.#running.values()) {
            context.abort(new CancelledError(reason, { code: 503, originalId: context.id, originalType: context.type }));
        }
    }
    /** Says a line to people, on standard error. */
    log = (...values) => {
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
    emit(type, data, cause) {
        if (this.options.emits !== undefined && !(type in this.options.emits)) {
            throw new InvalidMessageError(`event ${type} is not declared in \`emits\` of capability ${this.options.id}`, type);
        }
        if (cause === undefined && this.options.uncaused !== true) {
            throw new InvalidMessageError(`event ${type} has no cause; \`uncaused: true\` allows that`, type);
        }
        this.outbox.push(this.compose("event", type, data, freshId(), cause, ""));
        return this.outbox.isFull() ? this.outbox.drained() : DONE;
    }
    /** Sends a request, caused by another; resolves with its reply. */
    ask(type, data, options, context) {
        return new Promise((resolve, reject) => {
            if (this.#isEnding)
                throw new ClosedError(`${type}: the daemon ended the input`, { code: 503, started: "no", originalType: type });
            if (this.#asks.size >= ASKS_MAX)
                throw new OverflowError(`${ASKS_MAX} requests are under way`, type);
            const id = freshId();
            const pending = {
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
            }
            catch (error) {
                pending.forget?.();
                throw error;
            }
            this.#asks.add(pending, options.timeout === undefined ? undefined : this.clock.now() + options.timeout + GRACE_MS);
        });
    }
    /** A line. Causes and ids are texts of others, and are written as such. */
    compose(kind, type, data, id, cause, more) {
        if (!isType(type))
            throw new InvalidMessageError(`${JSON.stringify(type)} is no type: it needs two or more names with a capital letter, joined by dots`);
        let json;
        try {
            json = stringifyJson(data);
        }
        catch (error) {
            throw new InvalidMessageError(`the data of ${kind} ${type} cannot be written as JSON: ${firstLine(error)}`, type, error);
        }
        const causation = cause === undefined ? "" : `,"causation":${JSON.stringify(cause)}`;
        const line = `{"kind":"${kind}","type":"${type}","data":${json},"metadata":{"id":"${id}","timestamp":${this.clock.wall()}${causation}${more}}}`;
        // A character has at most three bytes.
        if (line.length * 3 > this.#lineBytesMax && Buffer.byteLength(line) > this.#lineBytesMax) {
            throw new InvalidMessageError(`${kind} ${type} has ${Buffer.byteLength(line)} bytes, and a line at most ${this.#lineBytesMax}`, type);
        }
        return line;
    }
    #request(message) {
        const handler = this.#handlers.get(`${message.kind} ${message.type}`);
        const context = new Context(this, message);
        this.#running.set(message.metadata.id, context);
        if (handler === undefined)
            return this.#fail(context, new Failure(404, `${this.options.id} has no handler for ${message.kind} ${message.type}`));
        let result;
        try {
            result = invoke(handler, context);
        }
        catch (error) {
            return this.#fail(context, error);
        }
        if (!isPromise(result))
            return this.#succeed(context, result);
        result.then((value) => this.#succeed(context, value), (error) => this.#fail(context, error));
    }
    #succeed(context, value) {
        let line;
        try {
            line = this.compose("reply", context.type, value, freshId(), context.id, "");
        }
        catch (error) {
            return this.#fail(context, error);
        }
        this.#finish(context, line);
    }
    #fail(context, error) {
        let data;
        if (error instanceof Failure) {
            data = { ...error.details, code: error.code, message: error.message };
        }
        else if (error instanceof CancelledError && context.isAborted()) {
            data = { code: error.code, message: error.message };
        }
        else {
            // What went wrong inside may be about others: it is for the log, not for whoever asked.
            const isOurs = error instanceof InvalidMessageError;
            this.log(`${context.kind} ${context.type} failed:`, isOurs ? error.message : error);
            const words = isOurs ? error.message : "an unexpected error; the log of the capability has it";
            data = { code: 500, message: `${context.type} failed: ${words}` };
        }
        let line;
        try {
            line = this.#composeError(context, data);
        }
        catch {
            // Details that JSON cannot express, or that are too long.
            line = this.#composeError(context, { code: data["code"], message: String(data["message"]).slice(0, 1024) });
        }
        this.#finish(context, line);
    }
    #composeError(context, data) {
        return this.compose("error", context.type, data, freshId(), context.id, "");
    }
    #finish(context, line) {
        context.finish();
        this.outbox.push(line, true);
        this.#running.delete(context.id);
        if (this.#isEnding)
            this.#whenIdle?.();
    }
    #event(message, length) {
        if (message.type === "Sys.RequestCancelled")
            this.#cancelled(message);
        if (!this.#handlers.has(`event ${message.type}`))
            return;
        this.#events.push(message, length);
    }
    /** Runs the handler of an event; what goes wrong is told, since nobody waits for an answer. */
    #runEvent(message) {
        const handler = this.#handlers.get(`event ${message.type}`);
        if (handler === undefined)
            return;
        const context = new Context(this, message);
        const failed = (error) => this.log(`event ${message.type} failed:`, error);
        const ended = () => {
            context.finish();
            if (this.#isEnding)
                queueMicrotask(() => this.#whenIdle?.());
        };
        let result;
        try {
            result = invoke(handler, context);
        }
        catch (error) {
            failed(error);
            return ended();
        }
        if (!isPromise(result))
            return ended();
        return Promise.resolve(result).then(ended, (error) => {
            failed(error);
            ended();
        });
    }
    /** A request that its requester gave up. Its outcome is owed all the same: it frees the place. */
    #cancelled(event) {
        const data = (event.data ?? {});
        const id = [event.metadata.causation, data.originalId, data.id].find((each) => typeof each === "string" && this.#running.has(each));
        const context = this.#running.get(id);
        context?.abort(new CancelledError(`${context.type} was cancelled`, {
            code: 499,
            originalId: context.id,
            originalType: context.type,
        }));
    }
}
const DONE = Promise.resolve();
/** What an error says, without the drawing that some engines add below. */
function firstLine(error) {
    return error.message.split("\n", 1)[0];
}
