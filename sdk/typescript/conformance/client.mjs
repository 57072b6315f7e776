// The conformance client (sdk/conformance/README.md): does what it is told, with the SDK's client.
import process from "node:process";
import { createInterface } from "node:readline";
import { MainspringError, connect, parseJson, stringifyJson } from "@mainspring/sdk";

let client;
/** What follows `connect` and `close` waits for them. */
let gate = Promise.resolve();
const controllers = new Map();
const watches = new Map();

const write = (line) => process.stdout.write(`${stringifyJson(line)}\n`);

function fail(n, error) {
  if (!(error instanceof MainspringError)) throw error;
  const { kind, code, type, started, originalId } = error;
  write({
    n,
    error: {
      kind,
      code,
      type: type ?? null,
      message: error.reason ?? error.message,
      started: started ?? null,
      originalId: originalId ?? null,
    },
  });
}

const request = (kind) => async (operation) => {
  const { n, type, data, timeout, id, correlation } = operation;
  const controller = new AbortController();
  controllers.set(n, controller);
  const options = { signal: controller.signal };
  if (timeout !== undefined) options.timeout = timeout;
  if (id !== undefined) options.id = id;
  if (correlation !== undefined) options.correlation = correlation;
  if (operation.progress === true) options.onProgress = (progress) => write({ n, progress });
  try {
    return await client[kind](type, data, options);
  } finally {
    controllers.delete(n);
  }
};

async function follow(n, { watch, gate }) {
  try {
    for (;;) {
      await gate.open;
      const { value, done } = await watch.next();
      if (done) break;
      await gate.open;
      write({ n, event: { type: value.type, data: value.data, id: value.metadata.id } });
    }
    write({ n, end: true });
  } catch (error) {
    fail(n, error);
  }
}

const operations = {
  async connect({ socket, tcp, token, tokenFile, reconnect }) {
    client = await connect({ socket, tcp, token, tokenFile, reconnect });
    return null;
  },
  send: request("send"),
  query: request("query"),
  async emit({ type, data, correlation }) {
    await client.emit(type, data, correlation === undefined ? {} : { correlation });
    return null;
  },
  cancel({ of }) {
    controllers.get(of)?.abort();
    return null;
  },
  async watch({ n, types, buffer }) {
    const options = { onGap: (gap) => write({ n, gap }) };
    if (buffer !== undefined) options.buffer = buffer;
    const watch = client.watch(types, options);
    await watch.ready;
    watches.set(n, { watch, gate: { open: undefined, close: undefined } });
    write({ n, ok: types });
    follow(n, watches.get(n));
    return undefined;
  },
  pause({ of }) {
    const { gate } = watches.get(of);
    gate.open = new Promise((resolve) => {
      gate.resume = resolve;
    });
    return null;
  },
  resume({ of }) {
    const { gate } = watches.get(of);
    gate.open = undefined;
    gate.resume();
    return null;
  },
  async unwatch({ of }) {
    await watches.get(of).watch.close();
    return null;
  },
  async flood({ kind, type, count, inFlight, data, bytes }) {
    const errors = {};
    let [replies, wrong, next] = [0, 0, 0];
    const payload = bytes === undefined ? data : "x".repeat(bytes);
    const worker = async () => {
      while (next < count) {
        next += 1;
        try {
          const reply = await client[kind === "command" ? "send" : "query"](type, payload);
          replies += 1;
          if (bytes !== undefined && reply !== payload) wrong += 1;
        } catch (error) {
          const key = String(error.code ?? error.name);
          errors[key] = (errors[key] ?? 0) + 1;
        }
      }
    };
    await Promise.all(Array.from({ length: inFlight }, worker));
    return { replies, errors, wrong };
  },
  async close() {
    await client.close();
    return null;
  },
};

async function run(operation) {
  const { n, op } = operation;
  try {
    const result = await operations[op](operation);
    if (result !== undefined) write({ n, ok: result });
  } catch (error) {
    fail(n, error);
  }
}

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const operation = parseJson(line);
    const started = gate.then(() => run(operation).then(() => undefined));
    if (operation.op === "connect" || operation.op === "close") gate = started;
  })
  .on("close", async () => {
    await gate;
    await client?.close();
  });
