// A client by hand: writes lines, reads lines, finds the promise of each answer.
import { randomUUID } from "node:crypto";
import { createConnection } from "node:net";
import { createInterface } from "node:readline";

export async function connect(path) {
  const socket = createConnection(path);
  const pending = new Map();
  createInterface({ input: socket }).on("line", (line) => {
    const message = JSON.parse(line);
    const waiting = pending.get(message.metadata.causation);
    if (waiting === undefined) return;
    pending.delete(message.metadata.causation);
    if (message.kind === "reply") waiting.resolve(message.data);
    else waiting.reject(new Error(message.data.message));
  });
  await new Promise((resolve) => socket.once("connect", resolve));
  return {
    query: (type, data) =>
      new Promise((resolve, reject) => {
        const id = randomUUID();
        pending.set(id, { resolve, reject });
        socket.write(JSON.stringify({ kind: "query", type, data, metadata: { id, timestamp: Date.now() } }) + "\n");
      }),
    close: () => socket.destroy(),
  };
}
