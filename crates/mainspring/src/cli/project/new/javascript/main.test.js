// Tests {{name}} as the daemon sees it: `node --test` in this folder.

const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const path = require("node:path");
const test = require("node:test");

// What the program says to a message.
function ask(message) {
  const done = spawnSync(process.execPath, [path.join(__dirname, "main.js")], { input: JSON.stringify(message) + "\n" });
  const lines = done.stdout.toString().split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line));
}

test("people are greeted by name", () => {
  const metadata = { id: "q1", timestamp: 0 };
  const said = ask({ kind: "query", type: "{{Type}}.Greet", data: { name: "Ada" }, metadata });
  assert.strictEqual(said.length, 1);
  assert.strictEqual(said[0].kind, "reply");
  assert.deepStrictEqual(said[0].data, { text: "Hello, Ada!" });
  assert.strictEqual(said[0].metadata.causation, "q1");
});
