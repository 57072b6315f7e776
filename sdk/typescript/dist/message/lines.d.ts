/** Cuts text that comes in pieces into lines. */
/**
 * The longest line that is kept. The daemon's own bound is 1 MiB as shipped; beyond this nothing
 * sensible can follow.
 */
export declare const LINE_LENGTH_MAX: number;
export declare class LineSplitter {
    #private;
    constructor(lengthMax?: number);
    /**
     * Takes a piece of text, and calls back for each line that ends in it. Blank lines are left out.
     *
     * @throws {RangeError} A line is longer than the bound.
     */
    push(text: string, onLine: (line: string) => void): void;
    /** The last line, if the text ended without a line feed. */
    end(onLine: (line: string) => void): void;
}
