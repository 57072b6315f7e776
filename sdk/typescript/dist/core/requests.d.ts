import { CancelledError, ClosedError, MainspringError } from "../errors.ts";
import type { Message } from "../message/message.ts";
import type { Clock } from "./clock.ts";
/** How much longer than the daemon we wait: its own word about a timeout says more than ours. */
export declare const GRACE_MS = 2000;
/** A request that was made and has no outcome yet. */
export interface Pending {
    readonly id: string;
    readonly type: string;
    /** As it was written, for a repetition byte for byte. Empty where nothing is repeated. */
    readonly line: string;
    readonly resolve: (reply: Message) => void;
    readonly reject: (error: MainspringError) => void;
    /** Told of events that report progress. */
    readonly onProgress?: ((event: Message) => void) | undefined;
    /** Whether it is sent again after a lost connection. */
    readonly repeats: boolean;
    /** Whether it was handed to a connection at least once. */
    isWritten: boolean;
    /** When it was made, monotonic. */
    readonly since: number;
    /** Whether it has a deadline of its own. */
    readonly hasDeadline: boolean;
    /** Takes the listener off the caller's signal. */
    forget?: (() => void) | undefined;
}
/** The requests under way: found by the id that their outcome names as its cause. */
export declare class Requests {
    #private;
    /** Characters of the lines that are kept for repetition. */
    bytes: number;
    constructor(clock: Clock);
    get size(): number;
    get(id: string): Pending | undefined;
    has(id: string): boolean;
    values(): IterableIterator<Pending>;
    add(pending: Pending, deadline: number | undefined): void;
    /** Takes an outcome. False: nobody waits for it. */
    settle(outcome: Message): boolean;
    /** Ends a request without an outcome. */
    fail(id: string, error: MainspringError): void;
    /** Forgets a request, without telling anybody. */
    drop(id: string): void;
    /** Ends those that are chosen. */
    failAll(error: (pending: Pending) => MainspringError | undefined): void;
}
/**
 * Has an `AbortSignal` end something. Returns what takes the listener off again.
 *
 * @throws {CancelledError} It is aborted already.
 */
export declare function onAbort(signal: AbortSignal, about: {
    id: string;
    type: string;
}, call: (error: CancelledError) => void): () => void;
/** A time as it is written into a message. */
export declare function timeoutOf(ms: number): number;
/** There is no connection for a request, or not any more. */
export declare function closed(pending: {
    id: string;
    type: string;
    isWritten: boolean;
}, why: string): ClosedError;
