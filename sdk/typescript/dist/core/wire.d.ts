import type { Wire } from "./outbox.ts";
/**
 * A wire over anything that writes and says when it has. How much waits is counted here: not every
 * runtime's streams tell it, or that they have drained.
 */
export declare class CountedWire implements Wire {
    #private;
    constructor(write: (text: string, done: () => void) => void, onEmpty?: () => void);
    send(text: string): void;
    waiting(): number;
    whenEmpty(call: () => void): void;
    /** Nothing will be written any more: whoever waits need not. */
    close(): void;
}
