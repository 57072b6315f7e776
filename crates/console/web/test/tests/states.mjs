// Many rows, and a sick daemon.
import { assert, atMock, eventually, open } from "./support.mjs";

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
];
