// {{name}}: a capability of Mainspring. Messages come in on standard input and go out on standard output, one JSON object a line.

const { randomUUID } = require("node:crypto");
const { createInterface } = require("node:readline");

// Says a message that `cause` caused.
function say(kind, type, data, cause) {
  const metadata = { id: randomUUID(), timestamp: Date.now(), causation: cause.metadata.id };
  process.stdout.write(JSON.stringify({ kind, type, data, metadata }) + "\n");
}

const handlers = {
  "{{Type}}.Greet": async (query) => ({ text: `Hello, ${query.data.name}!` }),
};

async function answer(message) {
  if (message.kind !== "command" && message.kind !== "query") return;
  try {
    say("reply", message.type, await handlers[message.type](message), message);
  } catch (error) {
    // Standard error goes to the daemon's log.
    console.error(`cannot answer ${message.type}:`, error);
    say("error", message.type, { code: 500, message: String(error.message) }, message);
  }
}

// The program ends when the input does: then the daemon is shutting down, or loads this program again.
createInterface({ input: process.stdin }).on("line", (line) => answer(JSON.parse(line)));
