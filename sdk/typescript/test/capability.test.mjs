import assert from "node:assert/strict";
import test from "node:test";
import { CancelledError, Failure, RequestError, capability } from "@mainspring/sdk";
import { TestDaemon, VirtualClock, createTestDaemon } from "@mainspring/sdk/testing";
import { type as arktype } from "arktype";
import * as v from "valibot";
import { z } from "zod";

const outcome = (promise) =>
  promise.then(
    (value) => ({ value }),
    (error) => error,
  );

test("a handler's return is the reply and its failure the error", async () => {
  const app = capability({ id: "app" })
    .query("App.Sync", ({ data }) => ({ got: data }))
    .query("App.Async", async ({ data }) => ({ got: data }))
    .query("App.Nothing", () => {})
    .command("App.Fail", () => {
      throw new Failure(409, "it is there already", { key: "a" });
    });
  const daemon = createTestDaemon(app);
  assert.deepEqual(await daemon.query("App.Sync", { n: 1 }), { got: { n: 1 } });
  assert.deepEqual(await daemon.query("App.Async", [1n << 70n]), { got: [1n << 70n] });
  assert.equal(await daemon.query("App.Nothing"), null);
  const error = await outcome(daemon.send("App.Fail"));
  assert.ok(error instanceof RequestError);
  assert.deepEqual(
    [error.code, error.type, error.reason, error.started],
    [409, "App.Fail", "it is there already", undefined],
  );
  assert.deepEqual(error.data, { key: "a", code: 409, message: "it is there already" });
  assert.deepEqual(daemon.faults, []);
  await daemon.close();
});

test("an exception is 500, told to the log and not to whoever asked", async () => {
  const app = capability({ id: "app" }).query("App.Throw", async () => {
    throw new Error("a secret");
  });
  const daemon = createTestDaemon(app);
  const error = await outcome(daemon.query("App.Throw"));
  assert.equal(error.code, 500);
  assert.doesNotMatch(error.message, /secret/);
  assert.match(daemon.logs.join("\n"), /a secret/);
  await daemon.close();
});

for (const [name, input, output] of [
  ["zod", z.object({ text: z.string().min(2), times: z.int().default(1) }), z.object({ text: z.string() })],
  [
    "valibot",
    v.object({ text: v.pipe(v.string(), v.minLength(2)), times: v.optional(v.number(), 1) }),
    v.object({ text: v.string() }),
  ],
  ["arktype", arktype({ text: "string>=2", times: "number = 1" }), arktype({ text: "string" })],
]) {
  test(`schemas of ${name} check what comes and what goes, with their defaults`, async () => {
    const app = capability({ id: "app" })
      .query("App.Repeat", { input, output }, ({ data }) => ({ text: data.text.repeat(data.times) }))
      .query("App.Wrong", { output }, () => ({ text: 7 }));
    const daemon = createTestDaemon(app);
    assert.deepEqual(await daemon.query("App.Repeat", { text: "ab" }), { text: "ab" });
    assert.deepEqual(await daemon.query("App.Repeat", { text: "ab", times: 3 }), { text: "ababab" });
    const refused = await outcome(daemon.query("App.Repeat", { text: "a" }));
    assert.equal(refused.code, 422);
    assert.match(refused.reason, /data\/text/);
    const wrong = await outcome(daemon.query("App.Wrong"));
    assert.equal(wrong.code, 500);
    assert.match(wrong.reason, /the reply of App.Wrong does not fit its schema: data\/text/);
    await daemon.close();
  });
}

test("a schema that checks later is waited for", async () => {
  const input = z.object({ n: z.number().refine(async (n) => n > 1, "too small") });
  const daemon = createTestDaemon(capability({ id: "app" }).query("App.Late", { input }, ({ data }) => data.n));
  assert.equal(await daemon.query("App.Late", { n: 2 }), 2);
  assert.match((await outcome(daemon.query("App.Late", { n: 1 }))).reason, /too small/);
  await daemon.close();
});

test("events come one after another in their order, and their failures are logged", async () => {
  const seen = [];
  const app = capability({ id: "app" }).on("App.Happened", async ({ data }) => {
    seen.push(`begin ${data}`);
    await new Promise((done) => setTimeout(done, data === 1 ? 20 : 1));
    seen.push(`end ${data}`);
    if (data === 2) throw new Error("the second one");
  });
  const daemon = createTestDaemon(app);
  for (const number of [1, 2, 3]) await daemon.emit("App.Happened", number);
  await daemon.close();
  assert.deepEqual(seen, ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]);
  assert.match(daemon.logs.join("\n"), /event App.Happened failed: Error: the second one/);
});

test("what a handler asks, sends and emits names its request as the cause", async () => {
  const app = capability({ id: "app" }).command("App.Do", async ({ data, ask, send, emit, message }) => {
    await emit("App.Began", { data });
    const read = await ask("Store.Get", { key: "a" });
    const written = await send("Store.Set", { key: "a", value: read.value + 1 });
    return { ...written, cause: message.metadata.id };
  });
  const seen = [];
  const daemon = createTestDaemon(app)
    .handle("Store.Get", (data, request) => (seen.push(request), { value: 41 }))
    .handle("Store.Set", (data, request) => (seen.push(request), { value: data.value }));
  const reply = await daemon.send("App.Do", 1);
  assert.equal(reply.value, 42);
  assert.deepEqual(
    seen.map(({ kind, metadata }) => [kind, metadata.causation]),
    [
      ["query", reply.cause],
      ["command", reply.cause],
    ],
  );
  assert.equal(daemon.events[0].metadata.causation, reply.cause);
  assert.equal(new Set(seen.map((each) => each.metadata.id)).size, 2);
  await daemon.close();
});

test("the error of a question is an error with code and started, and of no business of the requester", async () => {
  let caught;
  const app = capability({ id: "app" })
    .query("App.Catch", async ({ ask }) => {
      caught = await outcome(ask("No.Such"));
      return null;
    })
    .query("App.Let", async ({ ask }) => ask("No.Such"));
  const daemon = createTestDaemon(app);
  await daemon.query("App.Catch");
  assert.deepEqual(
    [caught.code, caught.type, caught.started, caught.originalType],
    [404, "Sys.RoutingError", "no", "No.Such"],
  );
  const error = await outcome(daemon.query("App.Let"));
  assert.deepEqual([error.code, error.type], [500, "App.Let"]);
  await daemon.close();
});

test("time is virtual: a question times out by the daemon's word, or two seconds later by our own", async () => {
  const daemon = new TestDaemon({ clock: new VirtualClock() });
  const errors = [];
  daemon.add(
    capability({ id: "app" }).query("App.Ask", async ({ data, ask }) => {
      errors.push(await outcome(ask(data, null, { timeout: 1000 })));
      return null;
    }),
  );
  daemon.handle("Other.Slow", () => new Promise(() => {}));
  const first = daemon.query("App.Ask", "Other.Slow");
  await daemon.advance(1000);
  await first;
  assert.deepEqual([errors[0].kind, errors[0].code, errors[0].started], ["outcome", 504, "yes"]);
  await daemon.close();
});

test("a cancelled request aborts its signal, and so does the deadline, a little later than the daemon", async () => {
  const clock = new VirtualClock();
  const daemon = new TestDaemon({ clock });
  const reasons = [];
  daemon.add(
    capability({ id: "app", cancel: true }).command("App.Wait", async ({ signal, deadline, message }) => {
      assert.equal(deadline, message.metadata.timestamp + (message.metadata.timeout ?? NaN) || undefined);
      await new Promise((done) => signal.addEventListener("abort", done));
      reasons.push(signal.reason);
      signal.throwIfAborted();
    }),
  );
  const controller = new AbortController();
  const cancelled = outcome(daemon.send("App.Wait", null, { signal: controller.signal }));
  await daemon.advance(10);
  controller.abort(new Error("changed my mind"));
  const error = await cancelled;
  assert.ok(error instanceof CancelledError);
  assert.equal(error.cause.message, "changed my mind");
  await daemon.advance(10);
  assert.deepEqual([reasons[0].code, reasons[0].kind], [499, "cancelled"]);

  const late = outcome(daemon.send("App.Wait", null, { timeout: 500 }));
  await daemon.advance(500);
  assert.deepEqual([(await late).type, reasons.length], ["Sys.Timeout", 1]);
  await daemon.advance(300);
  assert.equal(reasons[1].code, 504);
  await daemon.close();
  assert.deepEqual(daemon.faults, []);
});

test("progress comes to a requester that asked for it", async () => {
  const app = capability({ id: "app" }).command("App.Work", async ({ progress }) => {
    for (const step of [1, 2, 3]) await progress({ step });
    await new Promise((done) => setTimeout(done, 5));
    return "done";
  });
  const daemon = createTestDaemon(app);
  const told = [];
  assert.equal(await daemon.send("App.Work", null, { onProgress: (data) => told.push(data.step) }), "done");
  assert.deepEqual(told, [1, 2, 3]);
  await daemon.close();
});

test("events that are not declared, or that nothing caused, are refused where they are made", async () => {
  const app = capability({ id: "app", emits: { "App.Known": z.object({}) } }).query("App.Emit", ({ data, emit }) =>
    emit(data, {}),
  );
  const daemon = createTestDaemon(app);
  await daemon.query("App.Emit", "App.Known");
  assert.match(
    (await outcome(daemon.query("App.Emit", "App.Unknown"))).reason,
    /App.Unknown is not declared in `emits`/,
  );
  assert.throws(() => app.emit("App.Known", {}), /has no cause/);
  await daemon.close();
  const sensor = capability({ id: "sensor", uncaused: true }).query("Sensor.Ping", () => null);
  const other = createTestDaemon(sensor);
  await sensor.emit("Sensor.Warm", { degrees: 30 });
  await new Promise((done) => setTimeout(done, 1));
  assert.equal(other.events[0].metadata.causation, undefined);
  assert.deepEqual(other.faults, []);
  await other.close();
});

test("mistakes in a capability are told at once", () => {
  const app = capability({ id: "app" }).query("App.One", () => null);
  assert.throws(() => app.query("App.One", () => null), /query App.One has a handler already/);
  assert.throws(() => app.query("lower.case", () => null), /a type has two or more names/);
  assert.throws(() => app.query("App.Two", {}, "no function"), /the handler is no function/);
  assert.throws(() => capability({ id: "" }), /needs an id/);
  assert.throws(() => new Failure(200, "fine"), /400 to 599/);
});
