import { setImmediate } from "node:timers";

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

/** The longest time that `setTimeout` takes; anything longer would be no time at all. */
const DELAY_MAX = 2 ** 31 - 1;

/** The time of this machine. */
export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, call, holds = false) {
    const timer = setTimeout(call, Math.min(Math.max(ms, 0), DELAY_MAX)) as unknown as { unref?: () => void };
    if (!holds) timer.unref?.();
    return () => clearTimeout(timer as unknown as number);
  },
};

/** Time that passes when it is told to. */
export class VirtualClock implements Clock {
  #now = 0;
  readonly #start: number;
  #calls: { at: number; call: () => void }[] = [];

  constructor(start = Date.UTC(2026, 0, 1)) {
    this.#start = start;
  }

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.#start + this.#now;
  }

  after(ms: number, call: () => void): () => void {
    const entry = { at: this.#now + Math.max(ms, 0), call };
    this.#calls.push(entry);
    return () => {
      this.#calls = this.#calls.filter((other) => other !== entry);
    };
  }

  /**
   * Lets time pass: what is due is called, in the order of its time, each with whatever it brings
   * about at once.
   */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      const due = this.#calls.filter((entry) => entry.at <= end).sort((one, other) => one.at - other.at)[0];
      if (due === undefined) break;
      this.#calls = this.#calls.filter((entry) => entry !== due);
      this.#now = Math.max(this.#now, due.at);
      due.call();
      await settle();
    }
    this.#now = end;
  }
}

/**
 * Lets everything happen that needs no time: promises that settle each other, and lines between two
 * ends in memory.
 */
export async function settle(): Promise<void> {
  for (let round = 0; round < 8; round += 1) await new Promise<void>((done) => setImmediate(done));
}
