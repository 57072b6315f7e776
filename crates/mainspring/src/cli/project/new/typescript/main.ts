// {{name}}: a capability of Mainspring. Messages come in on standard input and go out on standard
// output, one JSON object a line.

import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";

interface Message {
  kind: "command" | "query" | "event" | "reply" | "error";
  type: string;
  data: unknown;
  metadata: { id: string; timestamp: number; causation?: string; correlation?: string };
}

// What the schemas of the manifest let through.
interface Person {
  name: string;
}

const met: string[] = [];

// Says a message that `cause` caused.
function say(kind: Message["kind"], type: string, data: unknown, cause: Message): void {
  const metadata = { id: randomUUID(), timestamp: Date.now(), causation: cause.metadata.id };
  process.stdout.write(JSON.stringify({ kind, type, data, metadata }) + "\n");
}

// A request that cannot be done: a code from 400 to 599, and why.
class Refused extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

type Handler = (message: Message) => Promise<unknown>;

const handlers = new Map<string, Handler>([
  ["{{Type}}.Greet", async (query) => ({ text: `Hello, ${(query.data as Person).name}!` })],
  [
    "{{Type}}.Meet",
    async (command) => {
      const { name } = command.data as Person;
      met.push(name);
      say("event", "{{Type}}.Met", { name, met: met.length }, command);
      return { met: met.length };
    },
  ],
]);

async function answer(message: Message): Promise<void> {
  if (message.kind !== "command" && message.kind !== "query") return;
  try {
    const handler = handlers.get(message.type);
    if (!handler) throw new Refused(404, `${message.type} is not known here`);
    say("reply", message.type, await handler(message), message);
  } catch (error) {
    // Standard output is for messages; standard error goes to the daemon's log.
    console.error(`cannot answer ${message.type}:`, error);
    const code = error instanceof Refused ? error.code : 500;
    say("error", message.type, { code, message: error instanceof Error ? error.message : String(error) }, message);
  }
}

// The program ends when the input does: then the daemon is shutting down, or loads this program
// again.
createInterface({ input: process.stdin }).on("line", (line) => void answer(JSON.parse(line) as Message));
