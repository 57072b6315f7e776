// Tests {{name}} without a daemon: `node --test main.test.ts` in this folder.

import assert from "node:assert/strict";
import test from "node:test";
import { createTestDaemon } from "@mainspring/sdk/testing";
import { app } from "./main.ts";

test("people are greeted by name, and it is told", async () => {
  const daemon = createTestDaemon(app);
  assert.deepEqual(await daemon.send("{{Type}}.Greet", { name: "Ada" }), { text: "Hello, Ada!" });
  assert.deepEqual(daemon.events[0].data, { name: "Ada", times: 1 });
  assert.deepEqual(await daemon.query("{{Type}}.Times", { name: "Ada" }), { name: "Ada", times: 1 });
  await daemon.close();
});

test("who was never greeted is 404", async () => {
  const daemon = createTestDaemon(app);
  await assert.rejects(daemon.query("{{Type}}.Times", { name: "Bob" }), { code: 404 });
  await daemon.close();
});
