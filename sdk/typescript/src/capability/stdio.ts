/** Standard input and output for messages, on Node, Deno and Bun. */
import process from "node:process";
import { format } from "node:util";
import type { Wire } from "../core/outbox.ts";
import { CountedWire } from "../core/wire.ts";
import { LineSplitter } from "../message/lines.ts";

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
export function takeStdio(): Stdio {
  const { stdin, stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr) as typeof stdout.write;
  for (const name of ["log", "info", "debug", "dir", "table"] as const) redirect(name);
  // The daemon is gone: so is the reason to be.
  stdout.on("error", () => process.exit(1));
  let resume = () => {};
  const wire = new CountedWire(
    (text, done) => write(text, done),
    () => resume(),
  );
  return {
    wire,
    read(onLine, mayRead, onEnd) {
      const lines = new LineSplitter();
      stdin.setEncoding("utf8");
      stdin.on("data", (text: string) => {
        try {
          lines.push(text, onLine);
        } catch (error) {
          stderr.write(`${(error as Error).message}\n`);
        }
        if (!mayRead()) stdin.pause();
      });
      stdin.on("end", () => {
        lines.end(onLine);
        onEnd();
      });
      stdin.on("error", onEnd);
      resume = () => {
        if (stdin.isPaused() && mayRead()) stdin.resume();
      };
    },
    resume: () => resume(),
  };
}

function redirect(name: "log" | "info" | "debug" | "dir" | "table"): void {
  const original = console[name];
  console[name] = (...values: unknown[]) => {
    // The table of `console.table` is drawn by the runtime, on the stream that it thinks is
    // standard output.
    if (name === "table" && values.length > 0) return console.error(...values);
    process.stderr.write(`${format(...values)}\n`);
  };
  Object.defineProperty(console[name], "name", { value: original.name });
}
