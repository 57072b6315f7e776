import { type Clock } from "../core/clock.ts";
import { Outbox, type Wire } from "../core/outbox.ts";
import { type Message } from "../message/message.ts";
import type { Hints } from "./capability.ts";
import { type AskOptions, Context } from "./context.ts";
import type { Schema } from "./schema.ts";
/**
 * The longest line that a daemon takes, as shipped (`limits.line_bytes_max`). A longer one would be
 * a fault.
 */
export declare const LINE_BYTES_MAX: number;
/** A handler, with what is declared about it. */
export interface Registration {
    kind: "command" | "query" | "event";
    type: string;
    input: Schema | undefined;
    output: Schema | undefined;
    description: string | undefined;
    examples: readonly unknown[] | undefined;
    hints: Hints | undefined;
    handler: (context: Context<any, any>) => unknown;
}
/** What a core needs to know besides its handlers. */
export interface CoreOptions {
    id: string;
    /** Types of the events that it may emit; any if absent. */
    emits?: Record<string, Schema> | undefined;
    uncaused?: boolean | undefined;
    cancel?: boolean | undefined;
    lineBytesMax?: number | undefined;
    eventsAtOnce?: number | undefined;
}
/** Where a core writes to. */
export interface CoreOutlets {
    wire: Wire;
    /** A line for people. */
    log: (line: string) => void;
    clock?: Clock | undefined;
    /** Called when the core can take more lines again. */
    onReady?: (() => void) | undefined;
}
export declare class CapabilityCore {
    #private;
    readonly options: CoreOptions;
    readonly clock: Clock;
    readonly outbox: Outbox;
    constructor(options: CoreOptions, registrations: readonly Registration[], outlets: CoreOutlets);
    /**
     * Takes a line of input. Never throws: what is wrong with a line is told, and the next one
     * counts.
     */
    readonly receive: (line: string) => void;
    /** Whether more lines should be given to it now. */
    wantsInput(): boolean;
    /** No more lines will come: resolves when everything that was begun has ended and is written. */
    end(): Promise<void>;
    /** Asks everything in progress to stop. */
    abort(reason: string): void;
    /** Says a line to people, on standard error. */
    readonly log: (...values: unknown[]) => void;
    /**
     * Sends an event. The promise resolves when there is room for more, so a loop that awaits it is
     * held back like any writer.
     *
     * @throws {InvalidMessageError} The type is no type, is not declared, or has no cause and needs one; or the data
     *   is no JSON.
     * @throws {OverflowError} Too much is waiting.
     */
    emit(type: string, data: unknown, cause: string | undefined): Promise<void>;
    /** Sends a request, caused by another; resolves with its reply. */
    ask(type: string, data: unknown, options: AskOptions, context: Context<any, any>): Promise<Message>;
    /** A line. Causes and ids are texts of others, and are written as such. */
    compose(kind: string, type: string, data: unknown, id: string, cause: string | undefined, more: string): string;
}
