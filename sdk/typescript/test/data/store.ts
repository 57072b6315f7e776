// A capability as RFC 0032 writes it (11.1 to 11.3, 12.1 form C): an object with schemas of whole
// messages and an actor in the shape of a Worker. Nothing here knows the SDK.
import { z } from "zod";

const Metadata = z.object({
  id: z.string(),
  timestamp: z.number(),
  correlation: z.string().optional(),
  causation: z.string().optional(),
});

interface OsMessage {
  kind: "command" | "query" | "event" | "reply" | "error";
  type: string;
  data: any;
  metadata: { id: string; timestamp: number; correlation?: string; causation?: string };
}

type MessageHandler = (msg: OsMessage) => Promise<OsMessage[]>;

interface CapabilityActor extends EventTarget {
  postMessage(message: OsMessage): void;
  onmessage: ((event: MessageEvent<OsMessage>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  terminate(): void;
}

/** A mailbox that is worked off one message after another. */
function createBufferedActor(handler: MessageHandler): CapabilityActor {
  const mailbox: OsMessage[] = [];
  let processing = false;
  const listeners = new Map<string, Function[]>();

  const actor: CapabilityActor = {
    postMessage(message: OsMessage): void {
      mailbox.push(message);
      scheduleProcessing();
    },
    onmessage: null,
    onerror: null,
    terminate(): void {
      mailbox.length = 0;
      processing = false;
    },
    addEventListener(type: string, callback: any): void {
      if (!listeners.has(type)) listeners.set(type, []);
      listeners.get(type)!.push(callback);
    },
    removeEventListener(type: string, callback: any): void {
      const callbacks = listeners.get(type);
      const at = callbacks?.indexOf(callback) ?? -1;
      if (at >= 0) callbacks!.splice(at, 1);
    },
    dispatchEvent(event: Event): boolean {
      for (const callback of listeners.get(event.type) ?? []) callback(event);
      if (event.type === "message" && actor.onmessage) actor.onmessage(event as MessageEvent<OsMessage>);
      return true;
    },
  };

  async function scheduleProcessing(): Promise<void> {
    if (processing) return;
    processing = true;
    queueMicrotask(async () => {
      while (mailbox.length > 0 && processing) {
        const msg = mailbox.shift()!;
        try {
          for (const out of await handler(msg)) actor.dispatchEvent(new MessageEvent("message", { data: out }));
        } catch (err) {
          actor.dispatchEvent(new ErrorEvent("error", { error: err }));
        }
      }
      processing = false;
    });
  }

  return actor;
}

const Set = z
  .object({
    kind: z.literal("command"),
    type: z.literal("Store.Set"),
    data: z.object({ key: z.string().min(1), value: z.unknown() }),
    metadata: Metadata,
  })
  .describe("Keeps a value under a key.");
const Get = z.object({
  kind: z.literal("query"),
  type: z.union([z.literal("Store.Get"), z.literal("Store.Has")]),
  data: z.object({ key: z.string() }),
  metadata: Metadata,
});
const Break = z.object({
  kind: z.literal("command"),
  type: z.literal("Store.Break"),
  data: z.object({}),
  metadata: Metadata,
});

const values = new Map<string, unknown>();
let resets = 0;

function caused(by: OsMessage, kind: OsMessage["kind"], type: string, data: unknown): OsMessage {
  const { id, correlation } = by.metadata;
  return {
    kind,
    type,
    data,
    metadata: {
      id: crypto.randomUUID(),
      timestamp: Date.now(),
      causation: id,
      ...(correlation ? { correlation } : {}),
    },
  };
}

export default {
  description: "Keeps values by key, as the RFC's Memory does.",
  inbound: z.union([Set, Get, Break]),
  outbound: z.union([
    z.object({
      kind: z.literal("reply"),
      type: z.enum(["Store.Set", "Store.Get", "Store.Has", "Store.Break"]),
      data: z.unknown(),
      metadata: Metadata,
    }),
    z.object({
      kind: z.literal("event"),
      type: z.literal("Store.Changed"),
      data: z.object({ key: z.string(), resets: z.number() }),
      metadata: Metadata,
    }),
  ]),
  subscribes: ["App.Reset"],
  spawn: (): CapabilityActor =>
    createBufferedActor(async (msg) => {
      switch (msg.type) {
        case "Store.Set":
          values.set(msg.data.key, msg.data.value);
          return [
            caused(msg, "event", "Store.Changed", { key: msg.data.key, resets }),
            caused(msg, "reply", "Store.Set", { ok: true }),
          ];
        case "Store.Get":
          return [caused(msg, "reply", "Store.Get", { value: values.get(msg.data.key) ?? null })];
        case "Store.Has":
          return [caused(msg, "reply", "Store.Has", { has: values.has(msg.data.key) })];
        case "App.Reset":
          values.clear();
          resets += 1;
          return [];
        default:
          throw new Error("the store is broken");
      }
    }),
};
