/**
 * What a client does with lines, apart from where they come from: requests, events, repetition
 * after a lost connection.
 */
import { type Clock } from "../core/clock.ts";
import { type Wire } from "../core/outbox.ts";
import { ConnectError, MainspringError } from "../errors.ts";
import { type Message } from "../message/message.ts";
import type { Watch } from "./watch.ts";
/**
 * How long a connection may be silent while something is waited for, before it is asked whether it
 * is still there.
 */
export declare const SILENCE_MS = 30000;
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
export declare class ClientCore {
    #private;
    readonly clock: Clock;
    constructor(outlets?: ClientOutlets);
    get isConnected(): boolean;
    get isClosed(): boolean;
    /** Requests under way. */
    get pending(): number;
    /** Why the daemon refused the connection as a whole, if it did. */
    get refusal(): ConnectError | undefined;
    /**
     * There is a connection. Subscriptions are made again, and what is unanswered is sent again, in
     * its order and byte for byte.
     */
    open(wire: Wire, greeting?: string): Promise<void>;
    /** The connection is gone. What cannot be repeated fails; the rest waits for the next one. */
    lost(why: string): void;
    /** Everything ends: what is under way fails, and nothing new is taken. */
    close(why: string, error?: MainspringError): void;
    /**
     * Takes a line. Never throws on behalf of a caller; what is no message ends the connection, so
     * that is thrown.
     */
    readonly receive: (line: string) => void;
    /** Sends a request; resolves with its reply. */
    request(kind: "command" | "query", type: string, data: unknown, options: RequestOptions): Promise<Message>;
    /**
     * Sends an event. Resolves when the daemon has taken it: a refusal comes before the answer to
     * whatever is asked next. With `confirm: false` it resolves when there is room for more, and a
     * refusal is told to nobody.
     */
    emit(type: string, data: unknown, options: {
        correlation?: string;
        confirm?: boolean;
        metadata?: Record<string, unknown>;
    }): Promise<void>;
    /** Sends a request that concerns this connection alone. */
    ask(kind: "command" | "query", type: string, data: unknown, options?: RequestOptions): Promise<Message>;
    /** Gives rights up: on this connection, and before anything else on every later one. */
    restrict(rights: Rights): Promise<Rights>;
    addWatch(watch: Watch): void;
    /** Ends a watch; types that nobody else watches are not sent any more. */
    removeWatch(watch: Watch): void;
}
