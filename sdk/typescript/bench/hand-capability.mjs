// The echo by hand: the contract and nothing else, as a plain skeleton of `mainspring new` has it.
import { randomUUID } from "node:crypto";
import process from "node:process";
import { createInterface } from "node:readline";

function say(kind, type, data, cause) {
  const metadata = { id: randomUUID(), timestamp: Date.now(), causation: cause.metadata.id };
  process.stdout.write(JSON.stringify({ kind, type, data, metadata }) + "\n");
}

const handlers = { "Bench.Echo": async (query) => query.data };

async function answer(message) {
  if (message.kind !== "command" && message.kind !== "query") return;
  try {
    say("reply", message.type, await handlers[message.type](message), message);
  } catch (error) {
    console.error(`cannot answer ${message.type}:`, error);
    say("error", message.type, { code: 500, message: String(error.message) }, message);
  }
}

createInterface({ input: process.stdin }).on("line", (line) => answer(JSON.parse(line)));
