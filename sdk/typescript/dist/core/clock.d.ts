/**
 * Time, as the cores see it: monotonic milliseconds and calls in the future. Real in programs,
 * virtual in tests.
 */
export interface Clock {
    /** Monotonic, in milliseconds. */
    now(): number;
    /** Milliseconds since 1970, for the timestamps of messages. */
    wall(): number;
    /**
     * Calls once, so many milliseconds from now; returns what takes that back. `holds`: whether the
     * process stays for it.
     */
    after(ms: number, call: () => void, holds?: boolean): () => void;
}
/** The time of this machine. */
export declare const systemClock: Clock;
/** Time that passes when it is told to. */
export declare class VirtualClock implements Clock {
    #private;
    constructor(start?: number);
    now(): number;
    wall(): number;
    after(ms: number, call: () => void): () => void;
    /**
     * Lets time pass: what is due is called, in the order of its time, each with whatever it brings
     * about at once.
     */
    advance(ms: number): Promise<void>;
}
/**
 * Lets everything happen that needs no time: promises that settle each other, and lines between two
 * ends in memory.
 */
export declare function settle(): Promise<void>;
