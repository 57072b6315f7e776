/**
 * Tests without a daemon: a small one in memory, with virtual time if wanted. It routes as the real
 * one does and holds capabilities to the same rules; what it leaves out is restarts, limits and
 * JSON Schema (schemas of libraries are checked all the same, by the capability itself).
 *
 * @example
 * const daemon = createTestDaemon(notes);
 * assert.deepEqual(await daemon.send("Notes.Add", { text: "milk" }), { id: 1 });
 * assert.equal(daemon.events[0].type, "Notes.Added");
 * await daemon.close();
 */
import type { Capability } from "./capability/capability.ts";
import { Client } from "./client/client.ts";
import type { RequestOptions } from "./client/core.ts";
import { type Clock } from "./core/clock.ts";
import { type Message } from "./message/message.ts";
export { VirtualClock } from "./core/clock.ts";
/**
 * Answers requests of a type in place of a capability. What it throws is an error: a `Failure` its
 * own, anything else 500.
 */
export type Stub = (data: any, request: Message) => unknown;
/** A daemon in memory. */
export declare class TestDaemon {
    #private;
    /** Every event that a capability emitted, oldest first. */
    readonly events: Message[];
    /** What capabilities wrote to their log. */
    readonly logs: string[];
    /** The rules that capabilities broke; the real daemon would have restarted them. */
    readonly faults: string[];
    constructor(options?: {
        clock?: Clock;
    });
    /** Runs a capability. */
    add(capability: Capability<any>): this;
    /** Answers commands and queries of a type. */
    handle(type: string, stub: Stub): this;
    /** A client of it, for code that takes one. */
    connect(): Client;
    /** Sends a command, and gives the data of its reply. */
    send(type: string, data?: unknown, options?: RequestOptions): Promise<any>;
    /** Sends a query, and gives the data of its reply. */
    query(type: string, data?: unknown, options?: RequestOptions): Promise<any>;
    /** Sends an event; resolves when the handlers have it and have done what needs no waiting. */
    emit(type: string, data?: unknown): Promise<void>;
    /** Lets virtual time pass. */
    advance(ms: number): Promise<void>;
    /** Ends it: the input of each capability ends, and what they have is finished. */
    close(): Promise<void>;
}
/** A daemon in memory that runs these capabilities. */
export declare function createTestDaemon(...capabilities: Capability<any>[]): TestDaemon;
