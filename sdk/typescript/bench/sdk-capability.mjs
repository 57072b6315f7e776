// The same echo with the SDK.
import { capability } from "@mainspring/sdk";

await capability({ id: "sdk" })
  .query("Bench.Echo", async ({ data }) => data)
  .run();
