// Types what README.md says: its files are written, its commands run, and what they print is
// compared.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { makeFolder } from "./daemon.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const README = readFileSync(new URL("../README.md", import.meta.resolve("@mainspring/sdk")), "utf8");

/** Its files and console blocks, in their order. */
function parts() {
  const found = [];
  const pattern = /(?:File `([^`]+)`:\n\n)?```(\w+)\n([\s\S]*?)```/g;
  for (const [, file, language, text] of README.matchAll(pattern)) {
    if (file !== undefined) found.push({ file, text });
    else if (language === "console") found.push({ console: text });
  }
  return found;
}

/** The commands of a console block, each with what it prints. */
function commands(text) {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((each) => {
      const [command, ...output] = each.split("\n");
      return { command, expected: output.join("\n") };
    });
}

test(
  "everything that the README shows works",
  { skip: process.versions.deno !== undefined || process.versions.bun !== undefined },
  async () => {
    const folder = makeFolder();
    const daemons = [];
    // `mainspring` and `node` as the reader has them, and the package where npm puts it.
    const tools = join(folder, "tools");
    mkdirSync(tools);
    symlinkSync(process.env.MAINSPRING ?? "mainspring", join(tools, "mainspring"));
    symlinkSync(process.execPath, join(tools, "node"));
    symlinkSync(join(here, "..", "..", "node_modules"), join(folder, "node_modules"));
    chmodSync(folder, 0o700);
    const options = {
      cwd: folder,
      encoding: "utf8",
      env: { ...process.env, PATH: `${tools}:${process.env.PATH}`, NODE_TEST_CONTEXT: "" },
    };
    let count = 0;
    try {
      for (const part of parts()) {
        if (part.file !== undefined) {
          mkdirSync(dirname(join(folder, part.file)), { recursive: true });
          writeFileSync(join(folder, part.file), part.text);
          continue;
        }
        for (const { command, expected } of commands(part.console)) {
          count += 1;
          if (command.endsWith("&")) {
            const daemon = spawn("sh", ["-c", `exec ${command.slice(0, -1)} --json`], {
              ...options,
              stdio: ["ignore", "pipe", "ignore"],
            });
            daemons.push(daemon);
            const [line] = await once(daemon.stdout.setEncoding("utf8"), "data");
            assert.match(line, /Sys.BootComplete/);
            continue;
          }
          const { stdout, stderr } = spawnSync("sh", ["-c", `${command} 2>&1`], options);
          assert.equal(stdout + stderr, expected, command);
        }
      }
    } finally {
      for (const daemon of daemons) {
        daemon.kill();
        await once(daemon, "exit");
      }
      rmSync(folder, { recursive: true, force: true });
    }
    assert.ok(count >= 8, `${count} commands`);
  },
);
