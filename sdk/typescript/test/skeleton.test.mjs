// The skeletons of `mainspring new`: their manifests are up to date, their tests pass, they run.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { connect } from "@mainspring/sdk";
import { makeFolder, runtime, startDaemon } from "./daemon.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const isNode = process.versions.deno === undefined && process.versions.bun === undefined;
const canStrip = !isNode || Number(process.versions.node.split(".")[0]) >= 22;

/** A skeleton as `new` writes it, with the package unpacked where npm puts it. */
function write(language) {
  const folder = makeFolder();
  for (const name of readdirSync(join(here, "..", "skeleton", language))) {
    const text = readFileSync(join(here, "..", "skeleton", language, name), "utf8");
    writeFileSync(join(folder, name), text.replaceAll("{{name}}", "greeter").replaceAll("{{Type}}", "Greeter"));
  }
  mkdirSync(join(folder, "node_modules"));
  cpSync(join(here, "..", "..", "node_modules", "@mainspring"), join(folder, "node_modules", "@mainspring"), {
    recursive: true,
  });
  return folder;
}

for (const [language, main] of [
  ["javascript", "main.mjs"],
  ["typescript", "main.ts"],
]) {
  const skip = language === "typescript" && !canStrip;
  test(`the skeleton in ${language} works`, { skip }, async () => {
    const folder = write(language);
    const [program, ...words] = runtime(join(folder, main));
    const run = (...more) =>
      spawnSync(program, more, {
        cwd: folder,
        encoding: "utf8",
        env: { ...process.env, NODE_TEST_CONTEXT: "", NODE_NO_WARNINGS: "1" },
      });
    const printed = run(...words, "--manifest");
    assert.equal(printed.status, 0, printed.stderr);
    const [found, wanted] = [
      JSON.parse(printed.stdout),
      JSON.parse(readFileSync(join(folder, "capability.json"), "utf8")),
    ];
    assert.deepEqual(wanted.program, { process: ["node", main] });
    assert.deepEqual({ ...found, program: undefined }, { ...wanted, program: undefined });
    if (isNode) {
      const tested = run("--test", main.replace("main.", "main.test."));
      assert.equal(tested.status, 0, tested.stdout + tested.stderr);
    }
    const daemon = await startDaemon([{ ...found, program: { process: [program, ...words] } }], folder);
    const client = await connect({ socket: daemon.socket });
    try {
      assert.deepEqual(await client.send("Greeter.Greet", { name: "Ada" }), { text: "Hello, Ada!" });
      await assert.rejects(client.query("Greeter.Times", { name: "Bob" }), { code: 404, type: "Greeter.Times" });
      await assert.rejects(client.send("Greeter.Greet", { name: "" }), { code: 422 });
    } finally {
      await client.close();
      await daemon.stop();
    }
  });
}
