// What the compiler knows: checked by `tsc --noEmit`, never run.
import { type ActorCapability, Failure, capability, connect } from "@mainspring/sdk";
import { createTestDaemon } from "@mainspring/sdk/testing";
import { type as arktype } from "arktype";
import * as v from "valibot";
import { z } from "zod";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_proof: Same<A, B>): void => {};

const app = capability({ id: "types", emits: { "Types.Added": z.object({ id: z.number() }) } })
  .command(
    "Types.Add",
    { input: z.object({ text: z.string(), times: z.number().default(1) }), output: z.object({ id: z.number() }) },
    async ({ data, emit, signal, deadline }) => {
      same<typeof data, { text: string; times: number }>(true);
      same<typeof signal, AbortSignal>(true);
      same<typeof deadline, number | undefined>(true);
      await emit("Types.Added", { id: 1 });
      // @ts-expect-error: it is not declared
      await emit("Types.Other", { id: 1 });
      // @ts-expect-error: its data does not fit
      await emit("Types.Added", { id: "1" });
      return { id: 1 };
    },
  )
  .query("Types.Valibot", { input: v.object({ n: v.number() }) }, ({ data }) => {
    same<typeof data, { n: number }>(true);
    return data.n;
  })
  .query("Types.Arktype", { input: arktype({ n: "number" }) }, ({ data }) => {
    same<typeof data, { n: number }>(true);
    return data.n;
  })
  .query("Types.Json", { input: { type: "object" } }, ({ data }) => data.anything)
  .on("Types.Reset", ({ log }) => log("reset"));

// @ts-expect-error: the reply does not fit
app.query("Types.Wrong", { output: z.object({ id: z.number() }) }, () => ({ id: "1" }));
app.query("Types.Fails", { output: z.object({ id: z.number() }) }, () => {
  throw new Failure(404, "none");
});

interface Catalogue {
  "Notes.Add": { kind: "command"; data: { text: string }; reply: { id: number } };
  "Notes.List": { kind: "query"; data: null; reply: { id: number }[] };
  "Notes.Added": { kind: "event"; data: { id: number } };
}

export async function client(): Promise<void> {
  await using typed = await connect<Catalogue>({ timeout: 1 } as object);
  const added = await typed.send("Notes.Add", { text: "x" }, { timeout: 1000 });
  same<typeof added, { id: number }>(true);
  const list = await typed.query("Notes.List");
  same<typeof list, { id: number }[]>(true);
  // @ts-expect-error: data is needed
  await typed.send("Notes.Add");
  // @ts-expect-error: it is not in the catalogue
  await typed.send("Notes.Unknown", {});
  for await (const event of typed.watch("Notes.Added")) same<typeof event.data, { id: number }>(true);

  const open = await connect();
  const anything = await open.query("Any.Thing", { a: 1 });
  anything.whatever;
  await open.query("Any.Thing");
  await open.send("Any.Thing", undefined, { signal: AbortSignal.timeout(10) });
  await createTestDaemon(app).query("Types.Json", {});
}

// The objects of RFC 0032, typed as the specification does.
interface RfcActor extends EventTarget {
  postMessage(message: { kind: string }): void;
  onmessage: ((event: MessageEvent<{ kind: string }>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  terminate(): void;
}
declare const spawn: () => RfcActor;
export const object: ActorCapability = { description: "", inbound: z.object({}), spawn };
export const stream: ActorCapability = { description: "", inbound: z.object({}), factory: () => new TransformStream() };
