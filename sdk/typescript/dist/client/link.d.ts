import type { ClientCore } from "./core.ts";
import { type Address } from "./find.ts";
/** How connections are made. */
export interface LinkOptions {
    /** How long a daemon is waited for that does not listen yet, in milliseconds; 1000 if absent. */
    wait?: number | undefined;
    /**
     * Whether a lost connection is made again; true if absent. Pauses grow from the first to the
     * second number, in milliseconds.
     */
    reconnect?: boolean | {
        first?: number;
        longest?: number;
    } | undefined;
    /** Called when the connection is lost, and when there is one again. */
    onDisconnect?: ((reason: string) => void) | undefined;
    onReconnect?: (() => void) | undefined;
}
export declare class Link {
    #private;
    constructor(core: ClientCore, address: Address, options: LinkOptions);
    /** The first connection: resolves when the daemon answers. */
    start(): Promise<void>;
    /** Gives a connection up that does not answer. */
    drop(): void;
    /** Ends the connection; what was handed over is still written. */
    close(): Promise<void>;
}
