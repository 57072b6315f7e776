/** A capability as a program. */
import process from "node:process";
import { realpathSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import type { Capability, RunOptions } from "./capability.ts";
import type { Manifest } from "./manifest.ts";
import { type Stdio, takeStdio } from "./stdio.ts";

/** What serves lines: a capability's core, or an actor in the shape of a Worker. */
export interface Server {
  receive: (line: string) => void;
  wantsInput(): boolean;
  end(): Promise<void>;
  abort(reason: string): void;
}

export async function runCapability(capability: Capability<any>, options: RunOptions): Promise<void> {
  if (await printed(() => capability.manifest())) return;
  await serve((stdio, log) => capability.start({ wire: stdio.wire, log, onReady: () => stdio.resume() }), options);
}

/** Prints the manifest if the program's first argument asks for it. */
export async function printed(manifest: () => Promise<Manifest>): Promise<boolean> {
  const wish = process.argv[2];
  if (wish !== "--manifest" && wish !== "--schema") return false;
  const whole = await manifest();
  const { inbound, outbound, subscribes } = whole;
  const shown =
    wish === "--manifest" ? { ...whole, program: { process: commandLine() } } : { inbound, outbound, subscribes };
  process.stdout.write(`${JSON.stringify(shown, null, 2)}\n`);
  return true;
}

/** Serves until the input ends, or SIGTERM comes; resolves when everything is written. */
export async function serve(
  start: (stdio: Stdio, log: (line: string) => void) => Server,
  options: RunOptions,
): Promise<void> {
  if (process.stdin.isTTY) {
    process.stderr.write(
      "This is a capability: `mainspring up` starts it and speaks to it. --manifest prints its manifest.\n",
    );
  } else {
    // A terminal sends it to everybody; what it means for this program, the daemon says.
    process.on("SIGINT", () => {});
  }
  const stdio = takeStdio();
  const server = start(stdio, (line) => process.stderr.write(`${line}\n`));
  await new Promise<void>((ended) => {
    stdio.read(server.receive, () => server.wantsInput(), ended);
    process.once("SIGTERM", () => {
      process.stdin.destroy();
      server.abort("the daemon ends the program");
      ended();
    });
  });
  await server.end();
  if (options.exit !== false) process.exit(0);
}

/** Whether a module is what the runtime was started with. */
export function isMain(meta: { url: string; main?: boolean }): boolean {
  if (typeof meta.main === "boolean") return meta.main;
  try {
    return process.argv[1] !== undefined && realpathSync(process.argv[1]) === realpathSync(fileURLToPath(meta.url));
  } catch {
    return false;
  }
}

/** How this program is started from its own folder. */
export function commandLine(script: string = process.argv[1] ?? "main.js"): string[] {
  const file = basename(script);
  if (process.versions["deno"] !== undefined) return ["deno", "run", "--allow-all", file];
  return [process.versions["bun"] === undefined ? "node" : "bun", file];
}
