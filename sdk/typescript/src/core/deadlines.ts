import type { Clock } from "./clock.ts";

interface Entry {
  at: number;
  key: string;
}

/** Stale entries beyond the live ones before they are thrown out. */
const STALE_MAX = 256;

/**
 * Deadlines by key: one timer for the earliest, however many there are. An entry that is not needed
 * any more is left in the heap and skipped when its time comes; when most of them are such, they
 * are thrown out.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #onDue: (key: string) => void;
  readonly #live = new Map<string, number>();
  #heap: Entry[] = [];
  #armed: { at: number; cancel: () => void } | undefined;

  constructor(clock: Clock, onDue: (key: string) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  set(key: string, at: number): void {
    this.#live.set(key, at);
    this.#push({ at, key });
    if (this.#heap.length > 2 * this.#live.size + STALE_MAX) this.#rebuild();
    this.#arm();
  }

  delete(key: string): void {
    if (this.#live.delete(key) && this.#live.size === 0) this.clear();
  }

  clear(): void {
    this.#live.clear();
    this.#heap = [];
    this.#armed?.cancel();
    this.#armed = undefined;
  }

  #arm(): void {
    const first = this.#heap[0];
    if (first === undefined || (this.#armed !== undefined && this.#armed.at <= first.at)) return;
    this.#armed?.cancel();
    const cancel = this.#clock.after(first.at - this.#clock.now(), () => this.#fire());
    this.#armed = { at: first.at, cancel };
  }

  #fire(): void {
    this.#armed = undefined;
    const now = this.#clock.now();
    for (let first = this.#heap[0]; first !== undefined && first.at <= now; first = this.#heap[0]) {
      this.#pop();
      if (this.#live.get(first.key) === first.at) {
        this.#live.delete(first.key);
        this.#onDue(first.key);
      }
    }
    this.#arm();
  }

  #rebuild(): void {
    const entries = this.#heap.filter((entry) => this.#live.get(entry.key) === entry.at);
    this.#heap = entries.sort((one, other) => one.at - other.at);
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(entry);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (heap[parent]!.at <= entry.at) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]!.at < heap[child]!.at) child += 1;
      if (heap[child]!.at >= last.at) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
  }
}
