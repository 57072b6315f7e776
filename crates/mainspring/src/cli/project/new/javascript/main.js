// {{name}}: a capability of Mainspring. Messages come in on standard input and go out on standard
// output, one JSON object a line.

const { randomUUID } = require("node:crypto");
const { createInterface } = require("node:readline");

const met = [];

// Says a message that `cause` caused.
function say(kind, type, data, cause) {
  const metadata = { id: randomUUID(), timestamp: Date.now(), causation: cause.metadata.id };
  process.stdout.write(JSON.stringify({ kind, type, data, metadata }) + "\n");
}

// A request that cannot be done: a code from 400 to 599, and why.
class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const handlers = new Map([
  ["{{Type}}.Greet", async (query) => ({ text: `Hello, ${query.data.name}!` })],
  [
    "{{Type}}.Meet",
    async (command) => {
      met.push(command.data.name);
      say("event", "{{Type}}.Met", { name: command.data.name, met: met.length }, command);
      return { met: met.length };
    },
  ],
]);

async function answer(message) {
  if (message.kind !== "command" && message.kind !== "query") return;
  try {
    const handler = handlers.get(message.type);
    if (!handler) throw new Refused(404, `${message.type} is not known here`);
    say("reply", message.type, await handler(message), message);
  } catch (error) {
    // Standard output is for messages; standard error goes to the daemon's log.
    console.error(`cannot answer ${message.type}:`, error);
    say("error", message.type, { code: Number.isInteger(error.code) ? error.code : 500, message: String(error.message) }, message);
  }
}

// The program ends when the input does: then the daemon is shutting down, or loads this program
// again.
createInterface({ input: process.stdin }).on("line", (line) => answer(JSON.parse(line)));
