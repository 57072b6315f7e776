// Tests {{name}} as the daemon sees it: `npm test` in this folder.

import assert from "node:assert";
import { spawnSync } from "node:child_process";
import test from "node:test";
import { fileURLToPath } from "node:url";

interface Said {
  kind: string;
  type: string;
  data: { code?: number };
  metadata: { causation: string };
}

// What the program says to a request.
function ask(kind: string, type: string, data: unknown): Omit<Said, "metadata">[] {
  const message = { kind, type, data, metadata: { id: "q1", timestamp: 0 } };
  const program = fileURLToPath(new URL("main.js", import.meta.url));
  const done = spawnSync(process.execPath, [program], { input: JSON.stringify(message) + "\n" });
  const lines = done.stdout.toString().split("\n").filter(Boolean);
  return lines.map((line) => {
    const { metadata, ...said } = JSON.parse(line) as Said;
    assert.strictEqual(metadata.causation, "q1");
    return said;
  });
}

test("people are greeted by name", () => {
  assert.deepStrictEqual(ask("query", "{{Type}}.Greet", { name: "Ada" }), [
    { kind: "reply", type: "{{Type}}.Greet", data: { text: "Hello, Ada!" } },
  ]);
});

test("who was met is told and counted", () => {
  assert.deepStrictEqual(ask("command", "{{Type}}.Meet", { name: "Ada" }), [
    { kind: "event", type: "{{Type}}.Met", data: { name: "Ada", met: 1 } },
    { kind: "reply", type: "{{Type}}.Meet", data: { met: 1 } },
  ]);
});

test("what is not known is an error", () => {
  const [said] = ask("query", "{{Type}}.Unknown", {});
  assert.deepStrictEqual([said?.kind, said?.data.code], ["error", 404]);
});
