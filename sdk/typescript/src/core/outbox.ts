import { OverflowError } from "../errors.ts";

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
export const WAITING_BYTES_MAX = 64 * 1024 * 1024;
/**
 * From here on whoever can wait should: input is not read, and `await emit()` takes until less is
 * waiting.
 */
export const HIGH_WATER_BYTES = 1024 * 1024;

/** Lines that are to be written: those of one turn of the event loop go out as one write. */
export class Outbox {
  readonly #wire: Wire;
  readonly #bytesMax: number;
  #text = "";
  #isScheduled = false;
  #drained: Promise<void> | undefined;
  readonly #flush = () => this.flush();

  constructor(wire: Wire, bytesMax = WAITING_BYTES_MAX) {
    this.#wire = wire;
    this.#bytesMax = bytesMax;
  }

  /**
   * Takes a line, without its line feed. `must`: also beyond the bound (an outcome, which is owed).
   *
   * @throws {OverflowError} Too much is waiting already.
   */
  push(line: string, must = false): void {
    if (!must && this.waiting() + line.length > this.#bytesMax) {
      throw new OverflowError(`more than ${this.#bytesMax} bytes wait to be written`);
    }
    this.#text = `${this.#text}${line}\n`;
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      queueMicrotask(this.#flush);
    }
  }

  /** Hands over what is there. */
  flush(): void {
    this.#isScheduled = false;
    const text = this.#text;
    if (text === "") return;
    this.#text = "";
    this.#wire.send(text);
  }

  /** How much is waiting, in characters and bytes. */
  waiting(): number {
    return this.#text.length + this.#wire.waiting();
  }

  /** Whether so much is waiting that no more should be made. */
  isFull(): boolean {
    return this.waiting() > HIGH_WATER_BYTES;
  }

  /** Resolves when all that is here is gone. */
  drained(): Promise<void> {
    this.#drained ??= new Promise((done) => {
      this.flush();
      this.#wire.whenEmpty(() => {
        this.#drained = undefined;
        done();
      });
    });
    return this.#drained;
  }
}
