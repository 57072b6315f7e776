import { CancelledError, ClosedError, InvalidMessageError, MainspringError, RequestError, TimeoutError, } from "../errors.js";
import { Deadlines } from "./deadlines.js";
/** How much longer than the daemon we wait: its own word about a timeout says more than ours. */
export const GRACE_MS = 2000;
/** The requests under way: found by the id that their outcome names as its cause. */
export class Requests {
    #pending = new Map();
    #deadlines;
    /** Characters of the lines that are kept for repetition. */
    bytes = 0;
    constructor(clock) {
        this.#deadlines = new Deadlines(clock, (id) => this.#timeOut(id));
    }
    get size() {
        return this.#pending.size;
    }
    get(id) {
        return this.#pending.get(id);
    }
    has(id) {
        return this.#pending.has(id);
    }
    values() {
        return this.#pending.values();
    }
    add(pending, deadline) {
        this.#pending.set(pending.id, pending);
        this.bytes += pending.line.length;
        if (deadline !== undefined)
            this.#deadlines.set(pending.id, deadline);
    }
    /** Takes an outcome. False: nobody waits for it. */
    settle(outcome) {
        const cause = outcome.metadata.causation;
        const pending = cause === undefined ? undefined : this.#take(cause);
        if (pending === undefined)
            return false;
        if (outcome.kind === "reply")
            pending.resolve(outcome);
        else
            pending.reject(new RequestError(outcome, pending));
        return true;
    }
    /** Ends a request without an outcome. */
    fail(id, error) {
        this.#take(id)?.reject(error);
    }
    /** Forgets a request, without telling anybody. */
    drop(id) {
        this.#take(id);
    }
    /** Ends those that are chosen. */
    failAll(error) {
        for (const pending of [...this.#pending.values()]) {
            const reason = error(pending);
            if (reason !== undefined)
                this.fail(pending.id, reason);
        }
    }
    #take(id) {
        const pending = this.#pending.get(id);
        if (pending === undefined)
            return undefined;
        this.#pending.delete(id);
        this.bytes -= pending.line.length;
        if (pending.hasDeadline)
            this.#deadlines.delete(id);
        pending.forget?.();
        return pending;
    }
    #timeOut(id) {
        const pending = this.#pending.get(id);
        if (pending === undefined)
            return;
        const details = {
            code: 504,
            originalId: id,
            originalType: pending.type,
            started: pending.isWritten ? undefined : "no",
        };
        this.fail(id, new TimeoutError(`${pending.type}: no outcome in time, and no word of the daemon`, details));
    }
}
/**
 * Has an `AbortSignal` end something. Returns what takes the listener off again.
 *
 * @throws {CancelledError} It is aborted already.
 */
export function onAbort(signal, about, call) {
    const error = (started) => new CancelledError(`${about.type} was cancelled`, {
        code: 499,
        started,
        originalId: about.id,
        originalType: about.type,
        cause: signal.reason,
    });
    if (signal.aborted)
        throw error("no");
    const listener = () => call(error());
    signal.addEventListener("abort", listener, { once: true });
    return () => signal.removeEventListener("abort", listener);
}
/** A time as it is written into a message. */
export function timeoutOf(ms) {
    if (!Number.isFinite(ms) || ms <= 0) {
        throw new InvalidMessageError(`a timeout is a number of milliseconds above 0, not ${ms}`);
    }
    return Math.max(1, Math.round(ms));
}
/** There is no connection for a request, or not any more. */
export function closed(pending, why) {
    const started = pending.isWritten ? undefined : "no";
    const details = { code: 503, started, originalId: pending.id, originalType: pending.type };
    return new ClosedError(`${pending.type}: ${why}`, details);
}
