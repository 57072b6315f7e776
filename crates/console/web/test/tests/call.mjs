// Call: forms made from schemas, complaints at their fields, cancelling.
import { assert, atDaemon, eventually, open, REFUSED } from "./support.mjs";

export const tests = [
  [
    "a form made from a schema sends, and the daemon's complaints stand at their field",
    async (browser) =>
      await atDaemon(
        browser,
        async (page, daemon) => {
        await open(page, "call");
        await page.getByLabel("Search the catalogue").fill("place");
        await page.getByRole("link", { name: /^Order\.Place command/ }).click();
        await page.getByText("Places an order.").waitFor();
        assert.equal(await page.getByLabel("customer").inputValue(), "Ada", "the example is filled in");
        await page.getByLabel("customer").fill("x");
        await page.getByLabel("size").selectOption("large");
        await page.getByRole("button", { name: "Send" }).click();
        await page.getByText("422 Sys.SchemaError").waitFor();
        await page.locator(".field.wrong", { hasText: "customer" }).locator(".complaint").waitFor();
        assert.equal(await page.locator(".field.wrong").count(), 1);
        await page.getByLabel("customer").fill("Ada Lovelace");
        await page.keyboard.press("Control+Enter");
        await page.locator(".result", { hasText: "Ada Lovelace" }).waitFor();
        assert.equal((await daemon.query("Order.Count")).orders, 1);
        await page.getByRole("button", { name: "JSON", exact: true }).click();
        await page.getByLabel("Data as JSON").fill('{"customer": "By hand", "quantity": 7}');
        await page.getByRole("button", { name: "Send" }).click();
        await page.locator(".result", { hasText: "By hand" }).waitFor();
        await page.locator(".result").getByRole("link", { name: "Trace" }).click();
        await page.locator(".tree", { hasText: "Stock.Reserve" }).waitFor();
        },
        { expected: REFUSED },
      ),
  ],
  [
    "complaints stand at members of lists, at what is missing, and nowhere else; a reference is followed",
    async (browser) =>
      await atDaemon(
        browser,
        async (page, daemon) => {
          await open(page, "call", "Order.Basket");
          await page.getByRole("button", { name: "Add", exact: true }).click();
          await page.getByRole("button", { name: "Add", exact: true }).click();
          await page.locator("#field-data\\.items\\.0\\.sku").fill("spring");
          await page.locator("#field-data\\.items\\.1\\.sku").fill("no");
          await page.getByText("What is ordered · at least 3 characters").first().waitFor();
          const wrong = async () => await page.locator(".field.wrong input").evaluateAll((inputs) => inputs.map((input) => input.id));
          await page.getByRole("button", { name: "Send" }).click();
          await eventually("the second one is complained about", async () => String(await wrong()) === "field-data.items.1.sku");
          assert.equal(await page.locator("#field-data\\.items\\.1\\.sku").getAttribute("aria-invalid"), "true");
          await page.locator("#field-data\\.items\\.1\\.sku").fill("lever");
          await page.locator("#field-data\\.items\\.0\\.quantity").fill("");
          await page.getByRole("button", { name: "Send" }).click();
          await eventually("what is missing is complained about", async () => String(await wrong()) === "field-data.items.0.quantity");
          await page.locator("#field-data\\.items\\.0\\.quantity").fill("3");
          // A restart of somebody does not take away what is filled in.
          await daemon.send("Sys.RestartActor", { capability: "stock" });
          await eventually("it was restarted", async () => (await daemon.query("Sys.Actors")).actors.find((actor) => actor.capabilityId === "stock").incarnation > 1);
          await page.waitForTimeout(2500);
          await page.getByRole("button", { name: "Send" }).click();
          await page.locator(".result", { hasText: '"items": 2' }).waitFor();
          await page.getByRole("button", { name: "Remove 2" }).click();
          await page.getByLabel("gift").selectOption("true");
          await page.getByRole("button", { name: "Send" }).click();
          await page.locator(".result", { hasText: '"items": 1' }).waitFor();
          assert.equal((await daemon.query("Order.Count")).orders, 2);
        },
        { expected: REFUSED },
      ),
  ],
  [
    "a call that takes too long is cancelled, at the daemon too; an event is emitted",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        await open(page, "call", "Slow.Wait");
        await page.getByRole("button", { name: "Ask" }).click();
        await eventually("the capability has it", async () => (await daemon.query("Sys.Actors")).actors.find((actor) => actor.capabilityId === "slow").inFlight > 0);
        await page.getByRole("button", { name: "Cancel" }).click();
        await page.getByText("Cancelled.").waitFor();
        await eventually("the capability was told", async () => (await daemon.query("Sys.Logs", { capability: "slow" })).lines.some(({ text }) => text === "cancelled: Slow.Wait"));
        await open(page, "call", "Order.Placed");
        await page.getByRole("button", { name: "Emit" }).click();
        await page.locator(".result", { hasText: "Reply" }).waitFor();
        await eventually("it was told", async () => (await daemon.query("Sys.Trace", { latest: 10, type: "Order.Placed" })).nodes.length === 1);
        // What was sent before is there again.
        await open(page, "call");
        await page.locator(".past", { hasText: "Order.Placed" }).waitFor();
      }),
  ],
];
