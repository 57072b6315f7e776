// A calendar: TypeScript, with the SDK. When schemas change: node main.ts --manifest >
// capability.json

import { Failure, capability } from "@mainspring/sdk";

interface Appointment {
  title: string;
  start: string;
  minutes: number;
}

const appointment = {
  type: "object",
  properties: {
    title: { type: "string", minLength: 1, description: "What it is about." },
    start: { type: "string", pattern: "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}$", description: "When it begins: 2026-11-16T14:30." },
    minutes: { type: "integer", minimum: 1, maximum: 1440, description: "How long it takes." },
  },
  required: ["title", "start", "minutes"],
  additionalProperties: false,
};
const day = {
  type: "object",
  properties: { day: { type: "string", pattern: "^\\d{4}-\\d{2}-\\d{2}$", description: "Which day: 2026-11-16." } },
  required: ["day"],
  additionalProperties: false,
};
const list = {
  type: "object",
  properties: { appointments: { type: "array", items: appointment } },
  required: ["appointments"],
};

const appointments: Appointment[] = [];
const times = (one: Appointment): [number, number] => {
  const start = Date.parse(`${one.start}:00Z`);
  return [start, start + one.minutes * 60_000];
};

export const app = capability({
  id: "calendar",
  description: "Keeps appointments, and sees to it that none overlap.",
  emits: { "Calendar.Booked": appointment },
  asks: [],
});

app.command(
  "Calendar.Book",
  { description: "Books an appointment, if the time is free.", input: appointment, output: appointment, hints: { destructive: false } },
  async ({ data, emit }) => {
    const wanted = data as Appointment;
    const [start, end] = times(wanted);
    const taken = appointments.find((one) => times(one)[0] < end && start < times(one)[1]);
    if (taken !== undefined) throw new Failure(409, `${taken.title} is at ${taken.start} for ${taken.minutes} minutes`);
    appointments.push(wanted);
    await emit("Calendar.Booked", wanted);
    return wanted;
  },
);

app.query("Calendar.Day", { description: "Lists the appointments of a day.", input: day, output: list }, ({ data }) => {
  const wanted = (data as { day: string }).day;
  const found = appointments.filter((one) => one.start.startsWith(wanted));
  return { appointments: found.sort((one, other) => one.start.localeCompare(other.start)) };
});

await app.runIfMain(import.meta);
