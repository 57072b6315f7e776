// Opening the page: tokens, sessions, rights, and a daemon that goes away.
import { openPage } from "../browser.mjs";
import { Daemon, GUEST_TOKEN } from "../daemon.mjs";
import { assert, atDaemon, AWAY, eventually, live, open, REFUSED } from "./support.mjs";

export const tests = [
  [
    "an address opens one session, and leaves no trace of its token",
    async (browser) => {
      const daemon = await Daemon.start({ capabilities: false, journal: false });
      const { page, context, faults } = await openPage(browser);
      const second = await openPage(browser, { expected: REFUSED });
      try {
        const address = await daemon.console();
        await page.goto(address);
        await live(page);
        assert.equal(new URL(page.url()).hash, "", "the token is still in the address");
        const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, document.cookie]));
        assert.ok(!stored.includes("console."), stored);
        await page.reload();
        await live(page);
        await second.page.goto(address);
        await second.page.getByText("That link was used already").waitFor();
        await second.page.getByText("mainspring console", { exact: true }).waitFor();
        assert.deepEqual([...faults, ...second.faults], []);
      } finally {
        await context.close();
        await second.context.close();
        await daemon.end();
      }
    },
  ],
  [
    "a token without rights sees its own and is told what it may not do",
    async (browser) => {
      const daemon = await Daemon.start();
      const { page, context, faults } = await openPage(browser, { expected: REFUSED });
      try {
        await page.goto(daemon.url);
        await page.getByLabel("Or use a token").fill("a wrong token");
        await page.getByRole("button", { name: "Sign in" }).click();
        await page.getByText("not known to the daemon").waitFor();
        await page.getByLabel("Or use a token").fill(GUEST_TOKEN);
        await page.getByRole("button", { name: "Sign in" }).click();
        await live(page);
        await page.getByText("Read-only.").waitFor();
        await open(page, "stream");
        await page.getByText("The stream is for operators").waitFor();
        await open(page, "letters");
        await page.getByText("Dead letters are for operators").waitFor();
        await open(page, "capabilities", "orders");
        assert.ok(await page.getByRole("button", { name: "Restart" }).isDisabled());
        assert.equal(await page.locator(".rows", { hasText: "bank" }).count(), 0, "others' capabilities are hidden");
        // What the token may send, it may send from here.
        await open(page, "call", "Order.Place");
        await page.getByRole("button", { name: "Send" }).click();
        await page.getByText("Reply", { exact: true }).waitFor();
        await open(page, "call", "Sys.RestartActor");
        await page.getByLabel("capability").fill("orders");
        await page.getByRole("button", { name: "Send" }).click();
        await page.getByText("403 Sys.ForbiddenError").waitFor();
        assert.deepEqual(faults, []);
      } finally {
        await context.close();
        await daemon.end();
      }
    },
  ],
  [
    "the page survives a restart of the daemon and says so",
    async (browser) =>
      await atDaemon(
        browser,
        async (page, daemon) => {
          await open(page, "stream");
          await daemon.pipe([["query", "Order.Count", 1]]);
          await page.locator(".virtual-row", { hasText: "Order.Count" }).waitFor();
          await daemon.down();
          await page.getByText("The daemon is away.").waitFor();
          await daemon.up();
          await page.getByText("The daemon was restarted").waitFor();
          assert.equal(await page.getByText("The daemon is away.").count(), 0);
          // The tap is open again, too.
          await eventually("new messages show", async () => {
            await daemon.pipe([["command", "Order.Place", { customer: "After", quantity: 1 }]]);
            return (await page.locator(".virtual-row", { hasText: "Order.Place" }).count()) > 0;
          });
          await page.getByRole("button", { name: "Dismiss" }).click();
          assert.equal(await page.getByText("The daemon was restarted").count(), 0);
        },
        { expected: AWAY },
      ),
  ],
];
