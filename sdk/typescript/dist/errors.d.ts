import type { Message, Started } from "./message/message.ts";
/** What kind of failure it was, for programs that would rather switch than use `instanceof`. */
export type ErrorKind = "outcome" | "timeout" | "cancelled" | "closed" | "connect" | "invalid" | "overflow";
/** What is known of a failed request. */
interface Details {
    code: number;
    started?: Started | undefined;
    originalId?: string | undefined;
    originalType?: string | undefined;
    cause?: unknown;
}
/** The base of every error of this package that is about a request or a connection. */
export declare abstract class MainspringError extends Error {
    abstract readonly kind: ErrorKind;
    /** A number as HTTP has them, 400 to 599. */
    readonly code: number;
    /**
     * Whether a capability had the request. `no`: sending it again is safe. Undefined: nobody knows.
     */
    readonly started: Started | undefined;
    /** The id of the request. */
    readonly originalId: string | undefined;
    /** The type of the request. */
    readonly originalType: string | undefined;
    constructor(message: string, details: Details);
}
/**
 * A request ended in an error, of a capability (which then has the request's type) or of the daemon
 * (`Sys.*`).
 */
export declare class RequestError extends MainspringError {
    readonly kind = "outcome";
    /** The type of the error message: the request's own, or one of `Sys.*`. */
    readonly type: string;
    /** The data of the error message, as it came. */
    readonly data: unknown;
    constructor(error: Message, request: {
        id: string;
        type: string;
    });
    /** The words of whoever failed, without type and code. */
    get reason(): string;
}
/** There was no outcome in time, and not even the daemon's word about it. */
export declare class TimeoutError extends MainspringError {
    readonly kind = "timeout";
}
/** The caller cancelled the request; `cause` is the reason of its `AbortSignal`. */
export declare class CancelledError extends MainspringError {
    readonly kind = "cancelled";
}
/** The connection was closed or lost, and the request is not repeated. */
export declare class ClosedError extends MainspringError {
    readonly kind = "closed";
}
/** There is no connection: nobody listens there, or does not let us in. */
export declare class ConnectError extends MainspringError {
    readonly kind = "connect";
    constructor(message: string, cause?: unknown);
}
/** Refused before anything was sent: the message breaks a rule. */
export declare class InvalidMessageError extends MainspringError {
    readonly kind = "invalid";
    constructor(message: string, originalType?: string, cause?: unknown);
}
/** Refused before anything was sent: too much waits to be sent or answered. */
export declare class OverflowError extends MainspringError {
    readonly kind = "overflow";
    constructor(message: string, originalType?: string);
}
/**
 * What a handler throws to end its request in an error of its own.
 *
 * @example
 * throw new Failure(404, "there is no note with that number");
 */
export declare class Failure extends Error {
    /** 400 to 599, in the sense that HTTP gives them. */
    readonly code: number;
    /** More members of the error's data, beside `code` and `message`. */
    readonly details: Record<string, unknown> | undefined;
    constructor(code: number, message: string, details?: Record<string, unknown>);
}
export {};
