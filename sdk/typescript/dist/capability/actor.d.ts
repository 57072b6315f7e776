import { type Wire } from "../core/outbox.ts";
import type { RunOptions } from "./capability.ts";
import type { Manifest } from "./manifest.ts";
import { type Server } from "./run.ts";
import { type Schema } from "./schema.ts";
/**
 * An actor: messages go in by `postMessage` and come out as `message` events (RFC 0032, 11.2).
 * Events are `any` here, because not every program has the types of the Web.
 */
export interface CapabilityActor {
    postMessage(message: any): void;
    onmessage: ((event: any) => void) | null;
    onerror: ((event: any) => void) | null;
    terminate(): void;
    addEventListener?(type: string, listener: any): void;
}
/** A capability as RFC 0032 (11.1) has it; with `factory` instead of `spawn`, as RFC 0031 does. */
export interface ActorCapability {
    description: string;
    inbound: Schema;
    outbound?: Schema | undefined;
    subscribes?: readonly string[] | undefined;
    spawn?: (() => CapabilityActor) | undefined;
    factory?: (() => {
        readable: any;
        writable: any;
    }) | undefined;
}
/** Whether a value is a capability of RFC 0032 or 0031. */
export declare function isActorCapability(value: unknown): value is ActorCapability;
/** Its manifest. The schemas are those of whole messages already. */
export declare function manifestOfActor(capability: ActorCapability, id: string): Promise<Manifest>;
/** Serves the daemon with it by standard input and output, until the input ends. */
export declare function runActor(capability: ActorCapability, options: RunOptions & {
    id: string;
}): Promise<void>;
/** Carries lines to an actor, and its messages back. */
export declare class ActorServer implements Server {
    #private;
    constructor(capability: ActorCapability, wire: Wire, log: (line: string) => void, onCrash: (error: unknown) => void);
    readonly receive: (line: string) => void;
    wantsInput(): boolean;
    end(): Promise<void>;
    abort(): void;
}
/** Node 20 has no `ErrorEvent`, which the actors of the RFC make. */
export declare function provideErrorEvent(): void;
