import type { Message } from "../message/message.ts";
import { ClientCore, type RequestOptions, type Rights } from "./core.ts";
import { type Place } from "./find.ts";
import { type LinkOptions } from "./link.ts";
import { Watch, type WatchOptions } from "./watch.ts";
/**
 * What a daemon offers, by type: as `mainspring codegen` writes it. Without one, everything may be
 * sent and anything comes back.
 */
export interface Catalogue {
    [type: string]: {
        kind?: "command" | "query" | "event";
        data: any;
        reply?: any;
    };
}
type DataOf<C, T extends keyof C> = C[T] extends {
    data: infer Data;
} ? Data : any;
type ReplyOf<C, T extends keyof C> = C[T] extends {
    reply: infer Reply;
} ? Reply : any;
/** Data may be left out where null will do. */
type DataArgument<Data> = unknown extends Data ? [data?: Data] : null extends Data ? [data?: Data] : [data: Data];
/** Where the daemon is, and how it is connected to. */
export interface ConnectOptions extends Place, LinkOptions {
}
/** What became of a command. */
export interface Result {
    id: string;
    state: "waiting" | "delivered" | "ended";
    /** How often a capability was given it. */
    attempts?: number;
    /** The reply or error that ended it; null if the daemon does not keep it any more. */
    outcome?: Message | null;
}
/** How an event is sent. */
export interface EmitOptions {
    correlation?: string;
    /** Whether to wait until the daemon has taken it; true if absent. */
    confirm?: boolean;
    metadata?: Record<string, unknown>;
}
/** A connection to a daemon, which is made again when it is lost. */
export declare class Client<C extends object = Catalogue> implements AsyncDisposable {
    #private;
    /** @internal Use `connect`. */
    constructor(core: ClientCore, link: {
        close(): Promise<void>;
    });
    /** Whether there is a connection at this moment. */
    get isConnected(): boolean;
    /** Requests under way. */
    get pending(): number;
    /**
     * Sends a command: something that is to be done. Resolves with the data of its reply.
     *
     * After a lost connection it is sent again under the same id, byte for byte: the daemon does it
     * once and gives the one answer. (A daemon that was itself started again, without a journal,
     * knows nothing of the first time: `repeat: false` is for commands that must not be done twice
     * even then.)
     *
     * @throws {RequestError} It ended in an error. Other errors of this package: there is no outcome.
     */
    send<T extends keyof C & string>(type: T, ...[data, options]: [...DataArgument<DataOf<C, T>>, options?: RequestOptions]): Promise<ReplyOf<C, T>>;
    /** Sends a query: something that is to be told. Resolves with the data of its reply. */
    query<T extends keyof C & string>(type: T, ...[data, options]: [...DataArgument<DataOf<C, T>>, options?: RequestOptions]): Promise<ReplyOf<C, T>>;
    /** Sends a command or query, and resolves with the whole message of its reply. */
    request(kind: "command" | "query", type: string, data?: unknown, options?: RequestOptions): Promise<Message>;
    /**
     * Sends an event. Resolves when the daemon has taken it.
     *
     * An event is never sent twice: one that a lost connection leaves in doubt is a `ClosedError`.
     */
    emit<T extends keyof C & string>(type: T, data?: DataOf<C, T>, options?: EmitOptions): Promise<void>;
    /** Watches events of these types: exact types, `Prefix.*`, or `*`. */
    watch<T extends string>(types: T | readonly T[], options?: WatchOptions): Watch<Message<T extends keyof C ? DataOf<C, T> : any>>;
    /**
     * Gives rights up for good: on this connection, and before anything else is said on every later
     * one. Resolves with what is left. Needs a daemon that knows `Sys.Restrict`.
     */
    restrict(rights: Rights): Promise<Rights>;
    /**
     * What became of a command that was sent under this id, by this process or an earlier one:
     * `state` is `waiting`, `delivered` or `ended`, and then `outcome` is the message that ended it.
     * Needs a daemon that knows `Sys.Result`.
     */
    result(id: string): Promise<Result>;
    /** Ends the connection. What is under way fails with a `ClosedError`. */
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}
/**
 * Connects to a daemon: as the options say, or else as the commands of `mainspring` find it.
 *
 * @throws {ConnectError} Nobody listens there, or does not let us in.
 */
export declare function connect<C extends object = Catalogue>(options?: ConnectOptions): Promise<Client<C>>;
export {};
