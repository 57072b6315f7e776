import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import test from "node:test";
import { capability } from "@mainspring/sdk";
import { type as arktype } from "arktype";
import * as v from "valibot";
import { z } from "zod";

/** What the daemon's own check says about a manifest. */
function check(manifest) {
  const folder = mkdtempSync(join(tmpdir(), "ms-"));
  try {
    writeFileSync(join(folder, "capability.json"), JSON.stringify({ ...manifest, program: { process: ["true"] } }));
    writeFileSync(join(folder, "mainspring.toml"), 'manifests = ["capability.json"]\n');
    const { status, stdout, stderr } = spawnSync(process.env.MAINSPRING ?? "mainspring", ["check"], {
      cwd: folder,
      encoding: "utf8",
    });
    return { status, said: `${stdout}${stderr}` };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function accepted(app) {
  const manifest = await app.manifest();
  const { status, said } = check(manifest);
  assert.equal(status, 0, `${said}\n${JSON.stringify(manifest, null, 1)}`);
  return manifest;
}

const note = z.object({
  text: z.string().min(1),
  tags: z.array(z.enum(["home", "work"])).default([]),
  at: z.iso.datetime().optional(),
});

test("handlers and schemas make a manifest that the daemon takes", async () => {
  const app = capability({
    id: "notes",
    description: "Keeps notes.",
    emits: { "Notes.Added": z.object({ id: z.string() }) },
    asks: ["Memory.Set"],
    concurrency: 4,
  })
    .command(
      "Notes.Add",
      { input: note, output: z.object({ id: z.string() }), description: "Keeps a note.", examples: [{ text: "milk" }] },
      () => ({ id: "1" }),
    )
    .query("Notes.List", { output: z.array(note) }, () => [])
    .on("App.Reset", () => {})
    .on("Notes.Imported", { input: z.object({ count: z.int() }) }, () => {});
  const manifest = await accepted(app);
  assert.equal(manifest.id, "notes");
  assert.deepEqual(manifest.subscribes, ["App.Reset"]);
  assert.deepEqual(manifest.limits, { concurrency: 4 });
  const [add, list, imported] = manifest.inbound.anyOf;
  assert.equal(add.description, "Keeps a note.");
  assert.deepEqual(add.properties.data.required, ["text"], "what has a default need not be given");
  assert.deepEqual(add.properties.data.examples, [{ text: "milk" }]);
  assert.equal(list.properties.data, undefined);
  assert.deepEqual(imported.properties.kind, { const: "event" });
  const says = manifest.outbound.anyOf.map((branch) =>
    JSON.stringify([branch.properties.kind, branch.properties.type]),
  );
  assert.deepEqual(says, [
    '[{"const":"reply"},{"const":"Notes.Add"}]',
    '[{"const":"reply"},{"const":"Notes.List"}]',
    '[{"const":"event"},{"const":"Notes.Added"}]',
    '[{"enum":["command","query"]},{"const":"Memory.Set"}]',
  ]);
});

test("what is not declared stays open, and replies are described all the same", async () => {
  const app = capability({ id: "open" }).query("Open.Get", { output: z.object({ n: z.number() }) }, () => ({ n: 1 }));
  const manifest = await accepted(app);
  assert.deepEqual(manifest.outbound.anyOf.at(-1), { properties: { kind: { enum: ["event", "command", "query"] } } });
  const plain = await accepted(capability({ id: "plain" }).query("Plain.Get", () => 1));
  assert.equal(plain.outbound, undefined);
});

test("hints are told by the names that manifests have for them", async () => {
  const app = capability({ id: "app", cancel: true })
    .command(
      "App.Drop",
      { hints: { title: "Drop it", destructive: true, idempotent: true, openWorld: false } },
      () => null,
    )
    .query("App.Get", { hints: { readOnly: true } }, () => null)
    .query("App.Plain", () => null);
  const { types, cancel } = await app.manifest();
  assert.deepEqual(types, {
    "App.Drop": { title: "Drop it", destructive: true, idempotent: true, open_world: false },
    "App.Get": { read_only: true },
  });
  assert.equal(cancel, true);
});

test("schemas that refer to themselves are gathered under names of their own", async () => {
  const tree = z.object({
    name: z.string(),
    get children() {
      return z.array(tree);
    },
  });
  const app = capability({ id: "trees" })
    .command("Trees.Grow", { input: tree, output: tree }, ({ data }) => data)
    .query("Trees.Get", { input: z.object({ root: tree }) }, () => null);
  const { inbound } = await accepted(app);
  assert.ok(Object.keys(inbound.$defs).length >= 2);
});

test("valibot, arktype and JSON Schema itself do as well", async () => {
  const spec = {
    valibot: v.object({ name: v.pipe(v.string(), v.minLength(1)), age: v.optional(v.number()) }),
    arktype: arktype({ name: "string>0", "age?": "number" }),
    "JSON Schema": {
      type: "object",
      properties: { name: { type: "string", minLength: 1 }, age: { type: "number" } },
      required: ["name"],
    },
  };
  for (const [library, input] of Object.entries(spec)) {
    const { inbound } = await accepted(capability({ id: "app" }).command("App.Greet", { input }, () => null));
    const { data } = inbound.properties;
    assert.deepEqual([data.properties.name, data.required], [{ type: "string", minLength: 1 }, ["name"]], library);
  }
});

test("a schema that JSON Schema cannot express is told with its type", async () => {
  const app = capability({ id: "app" }).command("App.Greet", { input: z.object({ when: z.date() }) }, () => null);
  await assert.rejects(app.manifest(), /command App.Greet: zod cannot express it as JSON Schema/);
  await assert.rejects(capability({ id: "idle" }).manifest(), /it would get nothing/);
});
