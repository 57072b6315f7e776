// {{name}}: a capability of Mainspring.
//
// When types or schemas change, write the manifest again: node main.mjs --manifest >
// capability.json

import { Failure, capability } from "@mainspring/sdk";

const greeted = new Map();

const person = {
  type: "object",
  properties: { name: { type: "string", minLength: 1, description: "Whom it is about." } },
  required: ["name"],
  additionalProperties: false,
};
const greeting = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const count = {
  type: "object",
  properties: { name: { type: "string" }, times: { type: "integer" } },
  required: ["name", "times"],
};

export const app = capability({
  id: "{{name}}",
  description: "Greets people by name, and remembers them.",
  emits: { "{{Type}}.Greeted": count },
  asks: [],
});

app.command(
  "{{Type}}.Greet",
  { description: "Greets somebody.", input: person, output: greeting },
  async ({ data, emit }) => {
    const times = (greeted.get(data.name) ?? 0) + 1;
    greeted.set(data.name, times);
    await emit("{{Type}}.Greeted", { name: data.name, times });
    return { text: `Hello, ${data.name}!` };
  },
);

app.query(
  "{{Type}}.Times",
  { description: "Tells how often somebody was greeted.", input: person, output: count },
  ({ data }) => {
    const times = greeted.get(data.name);
    if (times === undefined) throw new Failure(404, `${data.name} was never greeted`);
    return { name: data.name, times };
  },
);

// Started, and not imported by its test.
await app.runIfMain(import.meta);
