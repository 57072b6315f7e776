// Tests {{name}} as the daemon sees it: `node --test` in this folder.

const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const path = require("node:path");
const test = require("node:test");

// What the program says to a request.
function ask(kind, type, data) {
  const message = { kind, type, data, metadata: { id: "q1", timestamp: 0 } };
  const done = spawnSync(process.execPath, [path.join(__dirname, "main.js")], { input: JSON.stringify(message) + "\n" });
  const said = done.stdout.toString().split("\n").filter(Boolean).map((line) => JSON.parse(line));
  for (const message of said) assert.strictEqual(message.metadata.causation, "q1");
  return said.map(({ kind, type, data }) => ({ kind, type, data }));
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
  assert.deepStrictEqual([said.kind, said.data.code], ["error", 404]);
});
