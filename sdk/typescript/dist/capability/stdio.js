/** Standard input and output for messages, on Node, Deno and Bun. */
import process from "node:process";
import { format } from "node:util";
import { CountedWire } from "../core/wire.js";
import { LineSplitter } from "../message/lines.js";
/**
 * Takes standard output for messages alone: whatever the program, or a library of it, prints from
 * now on goes to standard error. A stray word between messages would be a fault, and cost the
 * program its life.
 */
export function takeStdio() {
    const { stdin, stdout, stderr } = process;
    const write = stdout.write.bind(stdout);
    stdout.write = stderr.write.bind(stderr);
    for (const name of ["log", "info", "debug", "dir", "table"])
        redirect(name);
    // The daemon is gone: so is the reason to be.
    stdout.on("error", () => process.exit(1));
    let resume = () => { };
    const wire = new CountedWire((text, done) => write(text, done), () => resume());
    return {
        wire,
        read(onLine, mayRead, onEnd) {
            const lines = new LineSplitter();
            stdin.setEncoding("utf8");
            stdin.on("data", (text) => {
                try {
                    lines.push(text, onLine);
                }
                catch (error) {
                    stderr.write(`${error.message}\n`);
                }
                if (!mayRead())
                    stdin.pause();
            });
            stdin.on("end", () => {
                lines.end(onLine);
                onEnd();
            });
            stdin.on("error", onEnd);
            resume = () => {
                if (stdin.isPaused() && mayRead())
                    stdin.resume();
            };
        },
        resume: () => resume(),
    };
}
function redirect(name) {
    const original = console[name];
    console[name] = (...values) => {
        // The table of `console.table` is drawn by the runtime, on the stream that it thinks is
        // standard output.
        if (name === "table" && values.length > 0)
            return console.error(...values);
        process.stderr.write(`${format(...values)}\n`);
    };
    Object.defineProperty(console[name], "name", { value: original.name });
}
