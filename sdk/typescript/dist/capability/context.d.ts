import { CancelledError } from "../errors.ts";
import type { Kind, Message } from "../message/message.ts";
import type { CapabilityCore } from "./core.ts";
import type { InputOf, Schema } from "./schema.ts";
/** How a request to another capability is made. */
export interface AskOptions {
    /** What it asks for: to tell something (the default), or to do something. */
    kind?: "query" | "command";
    /** How long it may take, in milliseconds. Never longer than the request that it is made for. */
    timeout?: number;
    /** Gives up waiting for it. */
    signal?: AbortSignal;
}
/**
 * Sends a request to another capability, and gives the data of its reply. An error of it is a
 * `RequestError`.
 */
export type Ask = (type: string, data?: unknown, options?: AskOptions) => Promise<any>;
/** Sends an event that this message caused. Awaiting it holds a loop back while nobody reads. */
export type Emit<Events> = string extends keyof Events ? (type: string, data?: unknown) => Promise<void> : <Type extends keyof Events & string>(type: Type, data: Events[Type] extends Schema ? InputOf<Events[Type]> : unknown) => Promise<void>;
/**
 * What a handler gets. Members can be taken apart: `async ({ data, ask, emit, log, signal, deadline
 * }) => ...`. What is not asked for is not made.
 */
export declare class Context<Data, Events = Record<string, Schema>> {
    #private;
    /** What the request or event says, as its schema made it. */
    data: Data;
    /** The whole message, as it came. */
    readonly message: Message;
    constructor(core: CapabilityCore, message: Message);
    get id(): string;
    get kind(): Kind;
    get type(): string;
    /**
     * The workflow that the message belongs to, if any. Whatever is sent here belongs to the same.
     */
    get correlation(): string | undefined;
    /**
     * When the requester stops waiting, in milliseconds since 1970; undefined if the request does not
     * say. A clock that is plainly not ours (a timestamp of 0, say) does not count: then it is that
     * long from now.
     */
    get deadline(): number | undefined;
    /**
     * Aborted when the request is cancelled, its deadline passes, or the daemon wants the program to
     * end.
     */
    get signal(): AbortSignal;
    /** Sends a request to another capability: a query, unless its options say `kind: "command"`. */
    get ask(): Ask;
    /** Sends a command to another capability. */
    get send(): Ask;
    /** Sends a query to another capability. */
    get query(): Ask;
    /** Sends an event that this message caused. */
    get emit(): Emit<Events>;
    /** Tells the requester how far it is, if that asked to be told: the event `<type>.Progress`. */
    get progress(): (data: unknown) => Promise<void>;
    /** Writes a line to the log of the daemon, by standard error. */
    get log(): (...values: unknown[]) => void;
    /** Ends the work on it: what listens on `signal` is told. */
    abort(reason: CancelledError): void;
    isAborted(): boolean;
    /** The work has ended: nothing may fire any more. */
    finish(): void;
}
