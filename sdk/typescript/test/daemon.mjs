// A real daemon in a folder of its own, for tests.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";

/** The folder of a test, removed at its end. */
export function makeFolder() {
  return mkdtempSync(join(tmpdir(), "ms-"));
}

/** The command line of the runtime that runs this, for a file. */
export function runtime(file) {
  return process.versions.deno === undefined
    ? [process.execPath, file]
    : [process.execPath, "run", "--allow-all", "--no-lock", "--node-modules-dir=manual", file];
}

/** Starts a daemon with these manifests; `stop` ends it and removes its folder. */
export async function startDaemon(manifests, folder = makeFolder()) {
  for (const [number, manifest] of manifests.entries())
    writeFileSync(join(folder, `capability-${number}.json`), JSON.stringify(manifest));
  writeFileSync(join(folder, "mainspring.toml"), 'manifests = ["capability-*.json"]\n[[listen]]\nunix = "app.sock"\n');
  chmodSync(folder, 0o700);
  const child = spawn(process.env.MAINSPRING ?? "mainspring", ["up", "--json"], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const log = [];
  child.stderr.setEncoding("utf8").on("data", (text) => log.push(text));
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout }), "line"),
    once(child, "exit").then(() => [""]),
  ]);
  if (!line.includes("Sys.BootComplete")) throw new Error(`the daemon does not start: ${line} ${log.join("")}`);
  return {
    socket: join(folder, "app.sock"),
    folder,
    log: () => log.join(""),
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      const [code] = await ended;
      rmSync(folder, { recursive: true, force: true });
      return code;
    },
  };
}
