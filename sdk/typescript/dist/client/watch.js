import { matches } from "../message/message.js";
const BUFFER = 1024;
/** Characters of the events that wait, at most; beyond, the oldest go as well. */
const BUFFER_LENGTH_MAX = 64 * 1024 * 1024;
/** Taken events are cut off when so many are gone. */
const GONE_MAX = 1024;
/**
 * Events as they come, for `for await`. It begins at once, and goes on over lost connections; the
 * loop's end (`break`), `close` or the signal ends it.
 */
export class Watch {
    types;
    /** Resolves when the daemon has the subscription; rejects if it refuses it. */
    ready;
    /** Events that were lost because the program did not take them in time. */
    dropped = 0;
    #bufferMax;
    #onGap;
    #onClose;
    #exact;
    #waiting = [];
    #length = 0;
    #first = 0;
    #gaps = [];
    #takers = [];
    #isOver = false;
    #error;
    #wasReady = false;
    #settle;
    #forget;
    constructor(types, options, onClose) {
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
        this.ready.catch(() => { });
        const { signal } = options;
        if (signal === undefined)
            return;
        const close = () => void this.close();
        signal.addEventListener("abort", close, { once: true });
        this.#forget = () => signal.removeEventListener("abort", close);
        if (signal.aborted)
            queueMicrotask(close);
    }
    next() {
        this.#tellGaps();
        if (this.#first < this.#waiting.length) {
            return Promise.resolve({ value: this.#take(), done: false });
        }
        if (this.#error !== undefined) {
            const error = this.#error;
            this.#error = undefined;
            return Promise.reject(error);
        }
        if (this.#isOver)
            return Promise.resolve({ value: undefined, done: true });
        return new Promise((resolve, reject) => this.#takers.push({ resolve, reject }));
    }
    return() {
        return this.close().then(() => ({ value: undefined, done: true }));
    }
    [Symbol.asyncIterator]() {
        return this;
    }
    [Symbol.asyncDispose]() {
        return this.close();
    }
    /** Ends it. What waits is given up. */
    async close() {
        this.#waiting = [];
        this.#first = 0;
        this.#length = 0;
        this.#onClose(this);
        this.finish();
    }
    /** @internal The daemon has the subscription. */
    subscribed() {
        this.#wasReady = true;
        this.#settle.resolve();
    }
    /** @internal There is no connection: events may pass unseen. */
    lost() {
        if (this.#wasReady)
            this.gap("reconnected", null);
    }
    /** @internal Some events will never come. */
    gap(reason, count) {
        const same = this.#gaps.find((gap) => gap.reason === reason);
        if (same === undefined)
            this.#gaps.push({ reason, count });
        else if (count !== null)
            same.count = (same.count ?? 0) + count;
        // Somebody waits for the next event: nothing comes before this.
        if (this.#takers.length > 0)
            this.#tellGaps();
    }
    /** @internal An event of the connection, which may be meant for another. */
    offer(event, length) {
        const isWanted = this.#exact === undefined ? this.types.some((type) => matches(type, event.type)) : this.#exact.has(event.type);
        if (!isWanted || this.#isOver)
            return;
        const taker = this.#takers.shift();
        if (taker !== undefined)
            return taker.resolve({ value: event, done: false });
        this.#waiting.push({ event: event, length });
        this.#length += length;
        while (this.#waiting.length - this.#first > this.#bufferMax ||
            (this.#length > BUFFER_LENGTH_MAX && this.#waiting.length - this.#first > 1)) {
            this.#take();
            this.dropped += 1;
            this.gap("buffer", 1);
        }
    }
    /** @internal The end, because of an error or not. */
    finish(error) {
        if (this.#isOver)
            return;
        this.#isOver = true;
        this.#forget?.();
        const [first, ...others] = this.#takers.splice(0);
        if (error === undefined)
            this.#settle.resolve();
        else
            this.#settle.reject(error);
        if (first === undefined)
            this.#error = error;
        else if (error === undefined)
            first.resolve({ value: undefined, done: true });
        else
            first.reject(error);
        for (const other of others)
            other.resolve({ value: undefined, done: true });
    }
    /** The oldest that waits. */
    #take() {
        const { event, length } = this.#waiting[this.#first];
        this.#first += 1;
        this.#length -= length;
        if (this.#first === this.#waiting.length || this.#first >= GONE_MAX) {
            this.#waiting = this.#waiting.slice(this.#first);
            this.#first = 0;
        }
        return event;
    }
    #tellGaps() {
        if (this.#gaps.length === 0)
            return;
        for (const gap of this.#gaps.splice(0))
            this.#onGap?.(gap);
    }
}
