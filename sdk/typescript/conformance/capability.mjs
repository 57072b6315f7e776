// The conformance capability (sdk/conformance/README.md), written as a user would write it.
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure, MainspringError, capability } from "@mainspring/sdk";

const noted = [];
let cancelled = 0;
const integer = { type: "integer" };
const object = (properties) => ({ type: "object", properties, required: Object.keys(properties) });

const app = capability({ id: "conformance", description: "What the conformance suite needs.", concurrency: 16 });

app.query("Conf.Echo", ({ data }) => data);

app.command(
  "Conf.Add",
  { input: object({ a: integer, b: integer }), output: object({ sum: integer }) },
  async ({ data }) => ({ sum: data.a + data.b }),
);

app.query("Conf.Fail", ({ data }) => {
  throw new Failure(data.code, data.message);
});

app.query("Conf.Throw", async () => {
  throw new Error("the secret of Conf.Throw");
});

app.command("Conf.Slow", async ({ data, signal }) => {
  try {
    await sleep(data.ms, undefined, { signal });
  } catch {
    cancelled += 1;
    signal.throwIfAborted();
  }
  return { waited: data.ms };
});

app.command("Conf.Ask", async ({ data, ask }) => {
  try {
    return { ok: await ask(data.type, data.data, { kind: data.kind, timeout: data.timeout }) };
  } catch (error) {
    if (!(error instanceof MainspringError)) throw error;
    return {
      error: {
        code: error.code,
        type: error.type,
        message: error.reason ?? error.message,
        started: error.started ?? null,
      },
    };
  }
});

app.command("Conf.Emit", async ({ data, emit }) => {
  for (let number = 1; number <= data.count; number += 1) await emit("Conf.Happened", { number, data: data.data });
  return { emitted: data.count };
});

app.command("Conf.Work", async ({ data, progress }) => {
  for (let step = 1; step <= data.steps; step += 1) await progress({ step, of: data.steps });
  return { steps: data.steps };
});

app.command("Conf.Crash", () => process.exit(3));

app.command("Conf.Print", ({ data }) => {
  console.log(data.text);
  process.stdout.write(`${data.text}\n`);
  return {};
});

app.query("Conf.Blob", ({ data }) => ({ blob: "x".repeat(data.bytes) }));

app.query("Conf.Unfit", () => {
  const itself = {};
  itself.itself = itself;
  return itself;
});

app.query("Conf.Context", ({ id, kind, type, correlation, deadline }) => ({
  id,
  kind,
  type,
  correlation: correlation ?? null,
  leftMs: deadline === undefined ? null : deadline - Date.now(),
}));

app.query("Conf.Status", () => ({ pid: process.pid, noted, cancelled }));

app.on("Conf.Noted", ({ data }) => {
  noted.push(data);
  if (noted.length > 100) noted.shift();
});

await app.run();
