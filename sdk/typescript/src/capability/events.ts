import type { Message } from "../message/message.ts";

/** Events that wait for their handlers: beyond either bound no more input is read. */
const EVENTS_MAX = 65_536;
const EVENT_BYTES_MAX = 64 * 1024 * 1024;

/** Events in the order in which they came, so many at a time. */
export class EventQueue {
  readonly #atOnce: number;
  readonly #run: (message: Message) => void | Promise<void>;
  readonly #onRoom: () => void;
  #waiting: { message: Message; length: number }[] = [];
  /** The first that waits; those before it are gone. */
  #first = 0;
  #bytes = 0;
  #running = 0;

  constructor(atOnce: number, run: (message: Message) => void | Promise<void>, onRoom: () => void) {
    this.#atOnce = atOnce;
    this.#run = run;
    this.#onRoom = onRoom;
  }

  push(message: Message, length: number): void {
    if (this.#running < this.#atOnce && this.#first === this.#waiting.length) return this.#start(message);
    this.#waiting.push({ message, length });
    this.#bytes += length;
  }

  isFull(): boolean {
    return this.#waiting.length - this.#first >= EVENTS_MAX || this.#bytes >= EVENT_BYTES_MAX;
  }

  isBusy(): boolean {
    return this.#running > 0 || this.#first < this.#waiting.length;
  }

  #start(message: Message): void {
    this.#running += 1;
    const result = this.#run(message);
    if (result === undefined) this.#running -= 1;
    else result.then(() => this.#ended());
  }

  #ended(): void {
    this.#running -= 1;
    const wasFull = this.isFull();
    while (this.#running < this.#atOnce && this.#first < this.#waiting.length) {
      const { message, length } = this.#waiting[this.#first]!;
      this.#first += 1;
      this.#bytes -= length;
      this.#start(message);
    }
    if (this.#first === this.#waiting.length || this.#first > 1024) {
      this.#waiting = this.#waiting.slice(this.#first);
      this.#first = 0;
    }
    if (wasFull && !this.isFull()) this.#onRoom();
  }
}
