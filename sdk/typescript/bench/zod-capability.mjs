// The same echo with the SDK and with schemas both ways, which the one by hand does not check.
import { capability } from "@mainspring/sdk";
import { z } from "zod";

const schema = z.object({ text: z.string(), number: z.number(), list: z.array(z.number()) });

await capability({ id: "zod" })
  .query("Bench.Echo", { input: schema, output: schema }, async ({ data }) => data)
  .run();
