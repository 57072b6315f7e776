/** Where lines go: a socket, standard output, or memory. */
export interface Wire {
    /** Takes text that ends with a line feed. */
    send(text: string): void;
    /** How many bytes it took that are not gone yet. */
    waiting(): number;
    /** Calls when nothing waits any more; once for each call. */
    whenEmpty(call: () => void): void;
}
/** The most that waits to be written: beyond it, whatever is to be sent is refused. */
export declare const WAITING_BYTES_MAX: number;
/**
 * From here on whoever can wait should: input is not read, and `await emit()` takes until less is
 * waiting.
 */
export declare const HIGH_WATER_BYTES: number;
/** Lines that are to be written: those of one turn of the event loop go out as one write. */
export declare class Outbox {
    #private;
    constructor(wire: Wire, bytesMax?: number);
    /**
     * Takes a line, without its line feed. `must`: also beyond the bound (an outcome, which is owed).
     *
     * @throws {OverflowError} Too much is waiting already.
     */
    push(line: string, must?: boolean): void;
    /** Hands over what is there. */
    flush(): void;
    /** How much is waiting, in characters and bytes. */
    waiting(): number;
    /** Whether so much is waiting that no more should be made. */
    isFull(): boolean;
    /** Resolves when all that is here is gone. */
    drained(): Promise<void>;
}
