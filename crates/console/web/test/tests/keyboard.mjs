// The keyboard alone: every panel, everything that can be done there, and with what effect.
import { assert, atDaemon, atMock, eventually, open, tabTo, tabToWords } from "./support.mjs";

const PANELS = [["2", "stream"], ["3", "traces"], ["4", "capabilities"], ["5", "call"], ["6", "letters"], ["7", "timers"], ["8", "journal"], ["1", "overview"]];

/** Numbers everything that can be used, and returns the words of what Tab does not reach. */
async function unreached(page) {
  const amount = await page.evaluate(() => {
    const all = [...document.querySelectorAll("a[href], button, input, select, textarea, [tabindex='0']")];
    const usable = all.filter((element) => !element.disabled && element.checkVisibility());
    window.usable = usable;
    window.reached = new Set();
    document.activeElement?.blur();
    return usable.length;
  });
  for (let at = 0; at < amount + 40; at++) {
    await page.keyboard.press("Tab");
    const left = await page.evaluate(() => {
      if (document.activeElement) window.reached.add(document.activeElement);
      return window.usable.filter((element) => element.isConnected && !window.reached.has(element)).length;
    });
    if (left === 0) break;
  }
  return await page.evaluate(() => window.usable.filter((element) => element.isConnected && !window.reached.has(element)).map((element) => element.outerHTML.slice(0, 160)));
}

/**
 * What can be clicked and is nothing that a keyboard reaches; what stands in a row or beside a link
 * to the same place is fine.
 */
const SAME_BY_LINK = "tr, .virtual-row, .edge, .edge *";

export const tests = [
  [
    "Tab reaches everything that can be used, in every panel",
    async (browser) =>
      await atMock(
        browser,
        async (page) => {
          const found = [];
          for (const [key, panel] of PANELS) {
            await page.evaluate(() => document.activeElement?.blur());
            await page.keyboard.press(key);
            await page.waitForSelector(`.panel-${panel}`);
            if (panel === "capabilities") await open(page, panel, "payments");
            if (panel === "call") await open(page, panel, "Order.Place");
            await page.waitForTimeout(500);
            for (const element of await unreached(page)) found.push(`${panel}: ${element}`);
          }
          assert.deepEqual(found, []);
          const odd = await page.evaluate((same) => [...document.querySelectorAll("main *")].filter((element) => getComputedStyle(element).cursor === "pointer" && !element.closest(`a, button, input, select, label, ${same}`)).map((element) => element.outerHTML.slice(0, 120)), SAME_BY_LINK);
          assert.deepEqual(odd, []);
        },
        { mood: "sick", perSecond: 20 },
      ),
  ],
  [
    "the keyboard alone reaches every panel and does everything in it",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        const press = async (...keys) => {
          for (const key of keys) await page.keyboard.press(key);
        };
        for (const [key, panel] of PANELS) {
          await press(key);
          await page.waitForSelector(`.panel-${panel}`);
        }
        // Stream: pause, move, open; run again; close.
        await press("2");
        await daemon.pipe([["command", "Order.Place", { customer: "Keys", quantity: 1 }]]);
        await page.locator(".virtual-row", { hasText: "Order.Place" }).first().waitFor();
        await press("p");
        await tabTo(page, "the list", () => document.activeElement?.classList.contains("virtual"));
        await press("End");
        while (!/Order\.Place(?!d)/.test(await page.locator(".virtual-row.at").innerText())) await press("k");
        await press("Enter");
        await page.locator(".inspector .tree").waitFor();
        const orders = async () => (await daemon.query("Order.Count")).orders;
        assert.equal(await orders(), 1);
        await tabToWords(page, "Run again");
        await press("Enter");
        await page.waitForSelector(".panel-traces .trace");
        assert.equal(await orders(), 2, "it ran again");
        await press("2");
        await page.locator(".inspector").waitFor();
        await eventually("it is closed", async () => {
          await press("Escape");
          return (await page.locator(".inspector").count()) === 0;
        });
        // Call: search, choose, fill in, send.
        await press("5");
        await page.waitForSelector(".panel-call");
        await press("/");
        await page.keyboard.type("order.place");
        await eventually("it is found", async () => (await page.locator(".catalogue b").first().innerText()) === "Order.Place");
        await press("Tab", "Enter");
        await page.getByText("Places an order.").waitFor();
        await tabTo(page, "the customer", () => document.activeElement?.id === "field-data.customer");
        await press("Control+a");
        await page.keyboard.type("Typed");
        await press("Control+Enter");
        await page.locator(".result", { hasText: "Typed" }).waitFor();
        await press("Escape", "?");
        await page.locator("dialog", { hasText: "open a panel" }).waitFor();
        await press("Escape");
        await eventually("it is closed", async () => (await page.locator("dialog").count()) === 0);
        // Capabilities: open one, restart it.
        await press("4");
        await tabToWords(page, "orders");
        await press("Enter");
        await page.locator(".detail-head", { hasText: "orders" }).waitFor();
        await tabToWords(page, "Restart");
        await press("Enter");
        await page.locator("dialog").waitFor();
        await tabTo(page, "the answer", () => document.activeElement?.className === "button bad");
        await press("Enter");
        await eventually("it was restarted", async () => (await daemon.query("Sys.Actors")).actors.find((actor) => actor.capabilityId === "orders").incarnation > 1);
        // Timers: cancel one.
        await daemon.command("send", "Order.Place", '{"customer":"Later","quantity":1}', "--every", "60s", "--timer", "by-keys");
        await press("7");
        await page.locator(".rows", { hasText: "by-keys" }).waitFor();
        await tabToWords(page, "Cancel by-keys");
        await press("Enter");
        await tabToWords(page, "Cancel the timer");
        await press("Enter");
        await eventually("it is cancelled", async () => (await daemon.query("Timer.List", { all: true })).timers.length === 0);
        // Dead letters: open and put back one, drop one that is marked.
        for (const amount of [201, 202]) await daemon.pipe([["command", "Timer.Schedule", { delay: 0, message: { kind: "command", type: "Bank.Charge", data: { amount } } }]]);
        const letters = async () => (await daemon.query("Sys.DeadLetters", { action: "list" })).letters;
        await eventually("there are letters", async () => (await letters()).length === 2);
        await press("6");
        await page.locator(".rows tbody tr").nth(1).waitFor();
        await tabTo(page, "a mark", () => document.activeElement?.getAttribute("aria-label")?.startsWith("Mark letter"));
        await press(" ");
        await page.evaluate(() => document.activeElement?.blur());
        await tabToWords(page, "Drop 1 marked");
        await press("Enter");
        await page.locator("dialog").waitFor();
        await tabTo(page, "the answer", () => document.activeElement?.className === "button bad");
        await press("Enter");
        await eventually("one is dropped", async () => (await letters()).length === 1);
        await tabTo(page, "the letter", () => document.activeElement?.className === "link-button");
        await press("Enter");
        await page.locator("dialog").waitFor();
        await tabToWords(page, "Edit");
        await press("Enter");
        await tabTo(page, "its data", () => document.activeElement?.tagName === "TEXTAREA");
        await press("Control+a");
        await page.keyboard.type('{"amount": 5}');
        await tabToWords(page, "Put back as edited");
        await press("Enter");
        await eventually("it is put back", async () => (await letters()).length === 0);
      }),
  ],
];
