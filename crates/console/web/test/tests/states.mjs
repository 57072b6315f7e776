// Many rows, hostile data, a sick daemon, the keyboard alone.
import { HOSTILE } from "../mock.mjs";
import { assert, atDaemon, atMock, eventually, open } from "./support.mjs";

export const tests = [
  [
    "ten thousand rows scroll without freezing, and only those in sight are drawn",
    async (browser) =>
      await atMock(browser, async (page, mock) => {
        await open(page, "stream");
        await eventually("the tap is open", async () => mock.taps.size > 0);
        const rows = Array.from({ length: 12_000 }, (_, at) => ({ at: Date.now(), kind: "event", type: "Flood.Came", id: `f-${at}`, causation: null, correlation: null, from: { capability: "orders" }, to: { capabilities: 0, clients: 0 }, data: { at } }));
        for (let at = 0; at < rows.length; at += 500) mock.send(rows.slice(at, at + 500));
        await page.getByText("10,000 rows").or(page.getByText("10,500 rows")).or(page.getByText("11,000 rows")).first().waitFor();
        const drawn = await page.locator(".virtual-row").count();
        assert.ok(drawn < 80, `${drawn} rows are drawn`);
        const slowest = await page.evaluate(async () => {
          const list = document.querySelector(".virtual");
          let slowest = 0;
          let last = performance.now();
          for (let step = 0; step < 60; step++) {
            list.scrollTop = (list.scrollHeight * step) / 60;
            await new Promise((resolve) => requestAnimationFrame(resolve));
            slowest = Math.max(slowest, performance.now() - last);
            last = performance.now();
          }
          list.scrollTop = list.scrollHeight;
          return slowest;
        });
        assert.ok(slowest < 1000, `a frame took ${slowest} ms`);
        await page.locator(".virtual-row").last().waitFor();
        await eventually("the oldest row that is kept is in sight", async () => (await page.locator(".virtual-row[aria-posinset='10000'], .virtual-row[aria-posinset='10500'], .virtual-row[aria-posinset='11000']").count()) > 0);
      }, { mood: "empty" }),
  ],
  [
    "what a hostile capability writes is text, wherever it shows",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        await open(page, "stream");
        await daemon.pipe([["query", "Hostile.Ask", { why: HOSTILE }], ["query", "Hostile.Ask", "large"], ["event", "Door.Rang", HOSTILE]]);
        await page.locator(".virtual-row", { hasText: "Hostile.Ask" }).nth(1).waitFor();
        await page.keyboard.press("p");
        for (const at of [0, 1]) {
          await page.locator(".virtual-row", { hasText: "Hostile.Ask" }).nth(at).click();
          await page.locator(".details").waitFor();
          await page.waitForTimeout(300);
        }
        for (const [panel, item] of [["capabilities", "hostile"], ["call", "Hostile.Ask"], ["traces", ""], ["overview", ""]]) {
          await open(page, panel, item);
          await page.waitForTimeout(400);
          await page.mouse.move(500, 300);
        }
        await open(page, "capabilities", "hostile");
        await page.locator(".log", { hasText: "<script>" }).waitFor();
        const text = await page.evaluate(() => document.body.innerText);
        for (const code of [0x1b, 0x202e, 0]) assert.ok(!text.includes(String.fromCharCode(code)), `code ${code} reached the page`);
        assert.equal(await page.evaluate(() => window.hacked), undefined);
        assert.equal(await page.locator("main img, main script, main b[onmouseover]").count(), 0);
      }),
  ],
  [
    "a made-up daemon with hostile names does no harm either",
    async (browser) =>
      await atMock(browser, async (page) => {
        for (const panel of ["overview", "capabilities", "stream", "traces", "letters", "timers", "call"]) {
          await open(page, panel);
          await page.waitForTimeout(300);
        }
        await open(page, "capabilities", HOSTILE);
        await page.locator(".detail-head").waitFor();
        assert.equal(await page.evaluate(() => window.hacked), undefined);
        assert.equal(await page.locator("main img, main script").count(), 0);
      }, { mood: "hostile" }),
  ],
  [
    "a sick daemon says first what needs attention, and a guest that tries instead of waiting is called so",
    async (browser) =>
      await atMock(browser, async (page) => {
        await page.locator(".attention", { hasText: "payments failed too often" }).waitFor();
        await page.locator(".attention", { hasText: "137 dead letters" }).waitFor();
        await page.locator(".cell.tone-bad", { hasText: "Loop lag" }).waitFor();
        await page.locator("nav a", { hasText: "137" }).click();
        await page.getByRole("button", { name: "Put back all" }).waitFor();
        await open(page, "capabilities", "pricing");
        await page.getByText(/It tries instead of waiting: 91,000 tries/).waitFor();
      }, { mood: "sick" }),
  ],
  [
    "the keyboard alone reaches every panel and every action",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        const press = async (...keys) => {
          for (const key of keys) await page.keyboard.press(key);
        };
        for (const [key, panel] of [["2", "stream"], ["3", "traces"], ["4", "capabilities"], ["5", "call"], ["6", "letters"], ["7", "timers"], ["8", "journal"], ["1", "overview"]]) {
          await press(key);
          await page.waitForSelector(`.panel-${panel}`);
        }
        await press("2");
        await daemon.pipe([["command", "Order.Place", { customer: "Keys", quantity: 1 }]]);
        await page.locator(".virtual-row", { hasText: "Order.Place" }).first().waitFor();
        await press("p");
        await page.locator(".virtual").focus();
        await press("ArrowDown", "j", "k", "Enter");
        await page.locator(".inspector .tree").waitFor();
        await press("Escape");
        assert.equal(await page.locator(".inspector").count(), 0);
        await press("5", "/");
        await page.keyboard.type("order.place");
        // From the search by Tab to the first type that was found, and into its form.
        await press("Tab", "Enter");
        await page.getByText("Places an order.").waitFor();
        for (let at = 0; at < 40 && (await page.evaluate(() => document.activeElement?.id)) !== "field-data.customer"; at++) await press("Tab");
        assert.equal(await page.evaluate(() => document.activeElement?.id), "field-data.customer");
        await press("Control+a");
        await page.keyboard.type("Typed");
        await press("Control+Enter");
        await page.locator(".result", { hasText: "Typed" }).waitFor();
        await press("Escape", "?");
        await page.locator("dialog", { hasText: "open a panel" }).waitFor();
        await press("Escape");
        await eventually("it is closed", async () => (await page.locator("dialog").count()) === 0);
        await press("4");
        for (let at = 0; at < 60 && (await page.evaluate(() => document.activeElement?.textContent)) !== "orders"; at++) await press("Tab");
        await press("Enter");
        await page.locator(".detail-head", { hasText: "orders" }).waitFor();
        for (let at = 0; at < 60 && (await page.evaluate(() => document.activeElement?.textContent?.trim())) !== "Restart"; at++) await press("Tab");
        await press("Enter");
        await page.locator("dialog").waitFor();
        for (let at = 0; at < 6 && (await page.evaluate(() => document.activeElement?.className)) !== "button bad"; at++) await press("Tab");
        await press("Enter");
        await eventually("it was restarted", async () => (await daemon.query("Sys.Actors")).actors.find((actor) => actor.capabilityId === "orders").incarnation > 1);
      }),
  ],
];
