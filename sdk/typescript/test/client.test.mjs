import assert from "node:assert/strict";
import test from "node:test";
import { ClosedError, OverflowError, capability } from "@mainspring/sdk";
import { TestDaemon, VirtualClock, createTestDaemon } from "@mainspring/sdk/testing";

const outcome = (promise) =>
  promise.then(
    (value) => ({ value }),
    (error) => error,
  );
const turn = () => new Promise((done) => setTimeout(done, 2));

test("watched events come in their order, and the loop's end ends the watch", async () => {
  const daemon = createTestDaemon();
  const client = daemon.connect();
  const watch = client.watch(["App.*", "Other.Thing"]);
  await watch.ready;
  for (const type of ["App.One", "Unwanted.Thing", "App.Two", "Other.Thing"]) await daemon.emit(type, { type });
  const seen = [];
  for await (const event of watch) {
    seen.push(event.type);
    if (seen.length === 3) break;
  }
  assert.deepEqual(seen, ["App.One", "App.Two", "Other.Thing"]);
  await daemon.emit("App.One", {});
  assert.deepEqual(await watch.next(), { value: undefined, done: true });
  await client.close();
});

test("a watch keeps so many events and tells how many it lost", async () => {
  const daemon = createTestDaemon();
  const client = daemon.connect();
  const gaps = [];
  const watch = client.watch("App.Happened", { buffer: 3, onGap: (gap) => gaps.push(gap) });
  await watch.ready;
  for (let number = 1; number <= 10; number += 1) await daemon.emit("App.Happened", number);
  assert.equal(watch.dropped, 7);
  const numbers = [];
  for (let count = 0; count < 3; count += 1) numbers.push((await watch.next()).value.data);
  assert.deepEqual(numbers, [8, 9, 10]);
  assert.deepEqual(gaps, [{ reason: "buffer", count: 7 }]);
  await client.close();
  assert.equal((await watch.next()).done, true);
});

test("several consumers of one watch share its events, and an abort signal ends it", async () => {
  const daemon = createTestDaemon();
  const client = daemon.connect();
  const controller = new AbortController();
  const watch = client.watch("App.Happened", { signal: controller.signal });
  await watch.ready;
  const both = [watch.next(), watch.next(), watch.next()];
  await daemon.emit("App.Happened", 1);
  await daemon.emit("App.Happened", 2);
  controller.abort();
  const found = await Promise.all(both);
  assert.deepEqual(
    found.map(({ value, done }) => [value?.data, done]),
    [
      [1, false],
      [2, false],
      [undefined, true],
    ],
  );
  await client.close();
});

test("closing a client ends what is under way and refuses what comes", async () => {
  const daemon = createTestDaemon().handle("App.Never", () => new Promise(() => {}));
  const client = daemon.connect();
  const pending = outcome(client.query("App.Never"));
  await turn();
  await client.close();
  const error = await pending;
  assert.ok(error instanceof ClosedError);
  assert.equal(error.started, undefined);
  const refused = await outcome(client.query("App.Never"));
  assert.deepEqual([refused.kind, refused.started], ["closed", "no"]);
});

test("more than may wait is refused, and the rest is answered", async () => {
  const daemon = createTestDaemon();
  const client = daemon.connect();
  const text = "x".repeat(8 * 1024 * 1024);
  const found = await Promise.all(Array.from({ length: 10 }, () => outcome(client.query("Syscall.Ping", text))));
  const refused = found.filter((each) => each instanceof OverflowError);
  assert.equal(refused.length, 3);
  assert.ok(refused.every((error) => error.started === "no" && error.code === 429));
  await client.close();
});

test("a daemon without a word is given up two seconds after the time that was asked for", async () => {
  const clock = new VirtualClock();
  const daemon = new TestDaemon({ clock });
  // Answers after our own patience, as a daemon that hangs would.
  daemon.handle("App.Never", () => new Promise(() => {}));
  const { ClientCore } = await import(new URL("./client/core.js", import.meta.resolve("@mainspring/sdk")));
  const core = new ClientCore({ clock });
  const sent = [];
  core.open({ send: (text) => sent.push(text), waiting: () => 0, whenEmpty: (call) => call() });
  const error = outcome(core.request("query", "App.Never", null, { timeout: 1000 }));
  await clock.advance(2999);
  assert.equal(core.pending, 1);
  await clock.advance(1);
  assert.deepEqual([(await error).kind, (await error).code], ["timeout", 504]);
});

test("a silent connection is asked whether it is there, and given up if not", async () => {
  const clock = new VirtualClock();
  const { ClientCore } = await import(new URL("./client/core.js", import.meta.resolve("@mainspring/sdk")));
  let silent = 0;
  const onSilent = () => {
    silent += 1;
    core.lost("silent");
  };
  const core = new ClientCore({ clock, onSilent });
  const sent = [];
  core.open({ send: (text) => sent.push(...text.trim().split("\n")), waiting: () => 0, whenEmpty: (call) => call() });
  outcome(core.request("query", "App.Never", null, {}));
  await clock.advance(29_999);
  assert.equal(sent.length, 1);
  await clock.advance(1);
  assert.match(sent[1], /Syscall\.Ping/);
  const ping = JSON.parse(sent[1]);
  core.receive(
    JSON.stringify({
      kind: "reply",
      type: ping.type,
      data: null,
      metadata: { id: "r", timestamp: 0, causation: ping.metadata.id },
    }),
  );
  await clock.advance(10_000);
  assert.equal(silent, 0);
  await clock.advance(30_000);
  assert.equal(silent, 1);
  assert.equal(sent.length, 3, "one ping each time");
  core.close("");
});

test("what waits for a connection is sent in its order when there is one, and given up after 32 s", async () => {
  const clock = new VirtualClock();
  const { ClientCore } = await import(new URL("./client/core.js", import.meta.resolve("@mainspring/sdk")));
  const core = new ClientCore({ clock });
  const wire = (sent) => ({
    send: (text) => sent.push(...text.trim().split("\n")),
    waiting: () => 0,
    whenEmpty: (call) => call(),
  });
  const first = [];
  core.open(wire(first));
  const one = outcome(core.request("command", "App.One", { n: 1 }, {}));
  const once = outcome(core.request("command", "App.Once", null, { repeat: false }));
  await clock.advance(1);
  core.lost("cut");
  assert.equal((await once).kind, "closed");
  outcome(core.request("command", "App.Two", null, {}));
  const second = [];
  core.open(wire(second), '{"token":"t"}');
  await clock.advance(1);
  assert.deepEqual([second[0], second[1]], ['{"token":"t"}', first[0]]);
  assert.match(second[2], /App\.Two/);
  core.lost("cut again");
  await clock.advance(31_000);
  assert.equal(core.pending, 2);
  await clock.advance(2000);
  assert.equal(core.pending, 0);
  assert.equal((await one).kind, "closed");
});

test("an error about a line that could not be read is that of the longest", async () => {
  const { ClientCore } = await import(new URL("./client/core.js", import.meta.resolve("@mainspring/sdk")));
  const core = new ClientCore();
  core.open({ send: () => {}, waiting: () => 0, whenEmpty: (call) => call() });
  const small = outcome(core.request("query", "App.Small", 1, { id: "small" }));
  const large = outcome(core.request("query", "App.Large", "x".repeat(1000), {}));
  const data = { code: 413, message: "too long", originalId: null, originalType: null, started: "no" };
  core.receive(
    JSON.stringify({
      kind: "error",
      type: "Sys.TooLargeError",
      data,
      metadata: { id: "e", timestamp: 0, causation: "line-2" },
    }),
  );
  assert.deepEqual([(await large).code, (await large).originalType], [413, "App.Large"]);
  core.receive(
    JSON.stringify({
      kind: "reply",
      type: "App.Small",
      data: 2,
      metadata: { id: "r", timestamp: 0, causation: "small" },
    }),
  );
  assert.equal((await small).value.data, 2);
  core.close("");
});

test("many timeouts have one timer, and those that were answered none", async () => {
  const clock = new VirtualClock();
  let timers = 0;
  const after = clock.after.bind(clock);
  clock.after = (ms, call) => {
    timers += 1;
    return after(ms, call);
  };
  const { ClientCore } = await import(new URL("./client/core.js", import.meta.resolve("@mainspring/sdk")));
  const core = new ClientCore({ clock });
  core.open({ send: () => {}, waiting: () => 0, whenEmpty: (call) => call() });
  const all = Array.from({ length: 5000 }, (_, n) =>
    outcome(core.request("query", "App.Ask", n, { id: `i${n}`, timeout: 1000 + (n % 7) })),
  );
  assert.ok(timers < 10, `${timers} timers`);
  for (let n = 0; n < 4999; n += 1)
    core.receive(
      JSON.stringify({
        kind: "reply",
        type: "App.Ask",
        data: n,
        metadata: { id: "r", timestamp: 0, causation: `i${n}` },
      }),
    );
  await clock.advance(5000);
  const found = await Promise.all(all);
  assert.equal(found[4998].value.data, 4998);
  assert.equal(found[4999].kind, "timeout");
  core.close("");
});

test("a capability answers through the daemon in memory", async () => {
  const daemon = createTestDaemon(capability({ id: "app" }).query("App.Echo", ({ data }) => data));
  const client = daemon.connect();
  assert.deepEqual(await client.query("App.Echo", { a: [1, "ä", 2n ** 60n] }), { a: [1, "ä", 2n ** 60n] });
  await client[Symbol.asyncDispose]();
  assert.equal((await outcome(client.query("App.Echo"))).kind, "closed");
  await daemon.close();
});

test("rights that were given up are given up first on every later connection, and the rest waits for that", async () => {
  const { ClientCore } = await import(new URL("./client/core.js", import.meta.resolve("@mainspring/sdk")));
  const clock = new VirtualClock();
  const core = new ClientCore({ clock });
  let sent = [];
  const wire = () => ({
    send: (text) => sent.push(...text.trim().split("\n")),
    waiting: () => 0,
    whenEmpty: (call) => call(),
  });
  const answer = (line, kind, data) => {
    const { type, metadata } = JSON.parse(line);
    core.receive(JSON.stringify({ kind, type, data, metadata: { id: "r", timestamp: 0, causation: metadata.id } }));
  };
  await core.open(wire());
  const restricted = core.restrict({ allow: ["App.*"], operator: false });
  await clock.advance(1);
  answer(sent[0], "reply", { allow: ["App.*"], operator: false });
  assert.deepEqual(await restricted, { allow: ["App.*"], operator: false });
  const pending = outcome(core.request("command", "App.Do", 1, {}));
  await clock.advance(1);
  core.lost("cut");

  sent = [];
  const opened = core.open(wire(), '{"token":"t"}');
  outcome(core.request("query", "App.Get", 2, {}));
  await clock.advance(1);
  assert.equal(sent.length, 2);
  assert.match(sent[1], /"type":"Sys.Restrict","data":{"allow":\["App\.\*"\],"operator":false}/);
  answer(sent[1], "reply", {});
  await opened;
  await clock.advance(1);
  assert.deepEqual(
    sent.slice(2).map((line) => JSON.parse(line).type),
    ["App.Do", "App.Get"],
  );
  answer(sent[2], "reply", "done");
  assert.equal((await pending).value.data, "done");
  core.lost("cut again");

  sent = [];
  const refused = outcome(core.open(wire()));
  const waiting = outcome(core.request("query", "App.Get", 3, {}));
  await clock.advance(1);
  answer(sent[0], "error", { code: 404, message: "no such thing" });
  assert.equal((await refused).kind, "outcome");
  assert.match((await waiting).message, /the rights of a new connection cannot be restricted/);
  await clock.advance(1);
  assert.equal(sent.length, 1, "nothing was said with rights that were given up");
  assert.ok(core.isClosed);
});
