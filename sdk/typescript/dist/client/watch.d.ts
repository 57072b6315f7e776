import type { MainspringError } from "../errors.ts";
import { type Message } from "../message/message.ts";
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
/**
 * Events as they come, for `for await`. It begins at once, and goes on over lost connections; the
 * loop's end (`break`), `close` or the signal ends it.
 */
export declare class Watch<Event extends Message = Message> implements AsyncIterableIterator<Event>, AsyncDisposable {
    #private;
    readonly types: readonly string[];
    /** Resolves when the daemon has the subscription; rejects if it refuses it. */
    readonly ready: Promise<void>;
    /** Events that were lost because the program did not take them in time. */
    dropped: number;
    constructor(types: readonly string[], options: WatchOptions, onClose: (watch: Watch<any>) => void);
    next(): Promise<IteratorResult<Event>>;
    return(): Promise<IteratorResult<Event>>;
    [Symbol.asyncIterator](): this;
    [Symbol.asyncDispose](): Promise<void>;
    /** Ends it. What waits is given up. */
    close(): Promise<void>;
    /** @internal The daemon has the subscription. */
    subscribed(): void;
    /** @internal There is no connection: events may pass unseen. */
    lost(): void;
    /** @internal Some events will never come. */
    gap(reason: Gap["reason"], count: number | null): void;
    /** @internal An event of the connection, which may be meant for another. */
    offer(event: Message, length: number): void;
    /** @internal The end, because of an error or not. */
    finish(error?: MainspringError): void;
}
