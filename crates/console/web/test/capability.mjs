// Capabilities for tests: what each does is said by the word on its command line. One JSON object a
// line, in and out.
import process from "node:process";
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import { HOSTILE } from "./mock.mjs";

const [, , role] = process.argv;
const waiting = new Map();
let orders = 0;

function say(kind, type, data, cause) {
  const id = randomUUID();
  process.stdout.write(`${JSON.stringify({ kind, type, data, metadata: { id, timestamp: Date.now(), causation: cause.metadata.id } })}\n`);
  return id;
}

function ask(type, data, cause) {
  return new Promise((resolve) => waiting.set(say("command", type, data, cause), resolve));
}

const ROLES = {
  async orders(message) {
    if (message.type === "Order.Count") return say("reply", message.type, { orders }, message);
    orders += 1;
    if (message.type === "Order.Basket") return say("reply", message.type, { number: orders, items: message.data.items.length }, message);
    await ask("Stock.Reserve", { quantity: message.data.quantity }, message);
    say("event", "Order.Placed", { customer: message.data.customer }, message);
    say("reply", message.type, { number: orders, customer: message.data.customer, note: message.data.note ?? null }, message);
  },
  stock: (message) => setTimeout(() => say("reply", message.type, { reserved: message.data.quantity }, message), 3),
  bank(message) {
    if (message.type === "Bank.Crash") {
      process.stderr.write("the vault is empty\n");
      process.exit(3);
    }
    if (message.data?.amount > 100) return say("error", message.type, { code: 402, message: "too much" }, message);
    process.stderr.write(`charged ${message.data?.amount ?? 0}\n`);
    say("reply", message.type, { charged: message.data?.amount ?? 0 }, message);
  },
  mailer: () => {},
  slow(message) {
    if (message.type === "Sys.RequestCancelled") process.stderr.write(`cancelled: ${message.data.type}\n`);
  },
  hostile(message) {
    process.stderr.write(`${HOSTILE.replaceAll("\0", "")}\n`);
    const data = message.data === "large" ? { [`<i>${"name".repeat(1000)}`]: "<b>".repeat(300_000) } : { [HOSTILE]: HOSTILE };
    say("reply", message.type, data, message);
  },
};

process.stderr.write(`${role} listens\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  const cause = message.metadata.causation;
  if ((message.kind === "reply" || message.kind === "error") && waiting.has(cause)) {
    waiting.get(cause)(message);
    waiting.delete(cause);
  } else if (message.kind !== "reply" && message.kind !== "error") void ROLES[role](message);
}
