import type { Wire } from "../core/outbox.ts";
/** The program's own end of the line to the daemon. */
export interface Stdio {
    /** Standard output. */
    readonly wire: Wire;
    /** Reads until the input ends. `mayRead` is asked after each piece; `resume` goes on. */
    read(onLine: (line: string) => void, mayRead: () => boolean, onEnd: () => void): void;
    resume(): void;
}
/**
 * Takes standard output for messages alone: whatever the program, or a library of it, prints from
 * now on goes to standard error. A stray word between messages would be a fault, and cost the
 * program its life.
 */
export declare function takeStdio(): Stdio;
