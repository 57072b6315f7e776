import type { Clock } from "./clock.ts";
/**
 * Deadlines by key: one timer for the earliest, however many there are. An entry that is not needed
 * any more is left in the heap and skipped when its time comes; when most of them are such, they
 * are thrown out.
 */
export declare class Deadlines {
    #private;
    constructor(clock: Clock, onDue: (key: string) => void);
    set(key: string, at: number): void;
    delete(key: string): void;
    clear(): void;
}
