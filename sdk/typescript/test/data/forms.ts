// Form A and form B of RFC 0032 (12.1), what it rejects there, and RFC 0031's own shape (a
// TransformStream).
import { z } from "zod";

export const formA = z.object({
  kind: z.literal("command"),
  type: z.literal("Form.One"),
  data: z.object({ n: z.number() }),
});
export const formB = z.object({
  kind: z.literal("query"),
  type: z.union([z.literal("Form.Two"), z.literal("Form.Three")]),
  data: z.unknown(),
});
export const endless = z.object({ kind: z.literal("command"), type: z.string() });
export const pattern = z.object({ kind: z.literal("command"), type: z.string().regex(/^Form\./) });

export default {
  description: "Doubles numbers, as a stream.",
  inbound: formA,
  outbound: z.object({ kind: z.literal("reply"), type: z.literal("Form.One"), data: z.object({ n: z.number() }) }),
  factory: () =>
    new TransformStream<any, any>({
      transform(message, controller) {
        const metadata = { id: crypto.randomUUID(), timestamp: Date.now(), causation: message.metadata.id };
        controller.enqueue({ kind: "reply", type: message.type, data: { n: message.data.n * 2 }, metadata });
      },
    }),
};
