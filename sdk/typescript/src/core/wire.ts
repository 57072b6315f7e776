import type { Wire } from "./outbox.ts";

/**
 * A wire over anything that writes and says when it has. How much waits is counted here: not every
 * runtime's streams tell it, or that they have drained.
 */
export class CountedWire implements Wire {
  readonly #write: (text: string, done: () => void) => void;
  readonly #onEmpty: () => void;
  #waiting = 0;
  #calls: (() => void)[] = [];
  #isClosed = false;

  constructor(write: (text: string, done: () => void) => void, onEmpty: () => void = () => {}) {
    this.#write = write;
    this.#onEmpty = onEmpty;
  }

  send(text: string): void {
    if (this.#isClosed) return;
    const { length } = text;
    this.#waiting += length;
    this.#write(text, () => {
      this.#waiting -= length;
      if (this.#waiting <= 0) this.#emptied();
    });
  }

  waiting(): number {
    return this.#waiting;
  }

  whenEmpty(call: () => void): void {
    if (this.#waiting <= 0 || this.#isClosed) queueMicrotask(call);
    else this.#calls.push(call);
  }

  /** Nothing will be written any more: whoever waits need not. */
  close(): void {
    this.#isClosed = true;
    this.#emptied();
  }

  #emptied(): void {
    const calls = this.#calls;
    this.#calls = [];
    for (const call of calls) call();
    this.#onEmpty();
  }
}
