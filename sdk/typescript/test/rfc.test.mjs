// The specification's own objects (RFC 0032: 11.3, 12.1), as TypeScript files that know nothing of
// the SDK, with a real daemon.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { connect, manifestOfActor } from "@mainspring/sdk";
import { makeFolder, runtime, startDaemon } from "./daemon.mjs";

const here = dirname(fileURLToPath(import.meta.url));
// Node 20 reads no TypeScript: there the files are compiled first, and nothing else.
const canStrip =
  process.versions.deno !== undefined ||
  process.versions.bun !== undefined ||
  Number(process.versions.node.split(".")[0]) >= 22;
const data = (name) => (canStrip ? join(here, "data", `${name}.ts`) : join(here, "data", "compiled", `${name}.js`));
const bin = fileURLToPath(new URL("./bin.js", import.meta.resolve("@mainspring/sdk")));

function manifestOf(name) {
  const [program, ...words] = runtime(bin);
  const { stdout, stderr, status } = spawnSync(program, [...words, "manifest", data(name)], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return { ...JSON.parse(stdout), program: { process: [program, ...words, data(name)] } };
}

test("an object of RFC 0032 runs unchanged", async () => {
  const manifest = manifestOf("store");
  assert.equal(manifest.id, "store");
  assert.deepEqual(manifest.subscribes, ["App.Reset"]);
  const daemon = await startDaemon([{ ...manifest, restart: { backoff_ms: 50 } }]);
  const client = await connect({ socket: daemon.socket });
  try {
    const watch = client.watch("Store.Changed");
    await watch.ready;
    assert.deepEqual(await client.send("Store.Set", { key: "a", value: [1, "ä"] }, { correlation: "flow" }), {
      ok: true,
    });
    const { value: event } = await watch.next();
    assert.deepEqual([event.data, event.metadata.correlation], [{ key: "a", resets: 0 }, "flow"]);
    assert.deepEqual(await client.query("Store.Get", { key: "a" }), { value: [1, "ä"] });
    assert.deepEqual(await client.query("Store.Has", { key: "b" }), { has: false });
    const refused = await client.send("Store.Set", { key: "", value: 1 }).catch((error) => error);
    assert.deepEqual([refused.code, refused.type], [422, "Sys.SchemaError"]);
    const described = await client.query("Syscall.Describe", { type: "Store.Set" });
    assert.deepEqual(described.handlers[0].input.required, ["key", "value"]);

    await client.emit("App.Reset");
    assert.deepEqual(await client.query("Store.Has", { key: "a" }), { has: false });

    const crash = await client.send("Store.Break", {}).catch((error) => error);
    assert.deepEqual([crash.code, crash.type, crash.started], [502, "Sys.ActorCrash", "yes"]);
    assert.match(daemon.log(), /the store is broken/);
    assert.deepEqual(await client.query("Store.Has", { key: "a" }), { has: false }, "the next incarnation");
  } finally {
    await client.close();
    // Deno does not tell the exit code of a child that it sent a signal.
    assert.ok([0, process.versions.deno === undefined ? 0 : null].includes(await daemon.stop()));
  }
});

test("the stream of RFC 0031 runs, too", async () => {
  const daemon = await startDaemon([manifestOf("forms")]);
  const client = await connect({ socket: daemon.socket });
  try {
    assert.deepEqual(await client.send("Form.One", { n: 21 }), { n: 42 });
  } finally {
    await client.close();
    await daemon.stop();
  }
});

test("finite forms are taken and endless ones refused with the place", async () => {
  const { formA, formB, endless, pattern } = await import(data("forms"));
  const check = async (inbound) => {
    const folder = makeFolder();
    const manifest = await manifestOfActor({ description: "A form.", inbound, spawn: () => ({}) }, "form");
    writeFileSync(join(folder, "capability.json"), JSON.stringify({ ...manifest, program: { process: ["true"] } }));
    writeFileSync(join(folder, "mainspring.toml"), 'manifests = ["capability.json"]\n');
    const { status, stdout, stderr } = spawnSync(process.env.MAINSPRING ?? "mainspring", ["check"], {
      cwd: folder,
      encoding: "utf8",
    });
    rmSync(folder, { recursive: true });
    return { status, said: `${stdout}${stderr}` };
  };
  assert.equal((await check(formA)).status, 0);
  assert.equal((await check(formB)).status, 0);
  for (const form of [endless, pattern]) {
    const { status, said } = await check(form);
    assert.equal(status, 1);
    assert.match(said, /properties\/type/);
  }
});

test("a file without a capability and a wrong command line are told", () => {
  const run = (...words) => {
    const [program, ...more] = runtime(bin);
    return spawnSync(program, [...more, ...words], { encoding: "utf8", input: "" });
  };
  assert.equal(run().status, 2);
  assert.match(run("--help").stdout, /Usage: mainspring-ts/);
  const none = run(join(here, "daemon.mjs"));
  assert.equal(none.status, 1);
  assert.match(none.stderr, /exports no capability/);
});
