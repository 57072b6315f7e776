/** Cuts text that comes in pieces into lines. */

/**
 * The longest line that is kept. The daemon's own bound is 1 MiB as shipped; beyond this nothing
 * sensible can follow.
 */
export const LINE_LENGTH_MAX = 64 * 1024 * 1024;

export class LineSplitter {
  /** The beginning of a line whose end has not come yet. Added to, never searched again. */
  #begun = "";
  readonly #lengthMax: number;

  constructor(lengthMax = LINE_LENGTH_MAX) {
    this.#lengthMax = lengthMax;
  }

  /**
   * Takes a piece of text, and calls back for each line that ends in it. Blank lines are left out.
   *
   * @throws {RangeError} A line is longer than the bound.
   */
  push(text: string, onLine: (line: string) => void): void {
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      let line = text.slice(from, end);
      if (this.#begun !== "") {
        line = this.#begun + line;
        this.#begun = "";
      }
      from = end + 1;
      if (!isBlank(line)) onLine(line);
    }
    if (from < text.length) this.#begun += from === 0 ? text : text.slice(from);
    if (this.#begun.length > this.#lengthMax) {
      this.#begun = "";
      throw new RangeError(`a line is longer than ${this.#lengthMax} characters`);
    }
  }

  /** The last line, if the text ended without a line feed. */
  end(onLine: (line: string) => void): void {
    const line = this.#begun;
    this.#begun = "";
    if (!isBlank(line)) onLine(line);
  }
}

function isBlank(line: string): boolean {
  return line.length < 2 ? line.trim() === "" : line.charCodeAt(0) <= 32 && line.trim() === "";
}
