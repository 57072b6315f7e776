// The pictures of the documents, of a real daemon with real traffic: at work, a trace, and in need
// of attention. They are build output as all screenshots; `cargo xtask console --pictures` puts
// them into docs.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { WIDE } from "../browser.mjs";
import { folder } from "./looks.mjs";
import { assert, atDaemon, eventually, open } from "./support.mjs";

/** How long charts are watched before they are shown. */
const WATCHED_MS = 40_000;

/** A shop in the evening: people at the command line, a web shop by HTTP, and a timer. */
function shop(daemon) {
  let isOn = true;
  const customers = ["Ada", "Grace", "Edsger", "Barbara", "Donald"];
  const often = async (ms, work) => {
    for (let turn = 0; isOn; turn++) {
      await work(turn).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, ms * (0.6 + Math.abs(Math.sin(turn / 5)))));
    }
  };
  const all = [
    often(120, async (turn) => await daemon.pipe(Array.from({ length: 3 + (turn % 4) }, (_, at) => ["command", "Order.Place", { customer: customers[(turn + at) % 5], quantity: 1 + (turn % 3) }]))),
    often(60, async (turn) => await daemon.post("commands/Order.Place", { customer: customers[turn % 5], quantity: 2 })),
    often(40, async () => await daemon.post("queries/Order.Count", null)),
    often(90, async (turn) => await daemon.post("commands/Bank.Charge", { amount: turn % 23 === 0 ? 500 : 20 })),
    often(70, async () => await daemon.pipe([["query", "Guest.Echo", 1]])),
  ];
  return async () => {
    isOn = false;
    await Promise.all(all);
  };
}

async function picture(page, name) {
  mkdirSync(folder, { recursive: true });
  await page.mouse.move(5, 500);
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

export const tests = [
  [
    "the pictures of the README show a real daemon, at work and in need of attention",
    async (browser) =>
      await atDaemon(
        browser,
        async (page, daemon) => {
          const stop = shop(daemon);
          await daemon.command("send", "Order.Place", '{"customer":"Night shift","quantity":1}', "--every", "2s", "--timer", "stock-check");
          await page.waitForTimeout(WATCHED_MS);
          await picture(page, "console-busy");
          await open(page, "traces");
          const orders = page.locator(".virtual-row", { hasText: /Order\.Place(?!d).*3 messages/ });
          await orders.first().waitFor();
          // The one that waited longest.
          const times = (await orders.allInnerTexts()).map((text) => Number(/([\d.]+) ms/.exec(text)?.[1] ?? 0));
          await orders.nth(times.indexOf(Math.max(...times))).dispatchEvent("click");
          await page.locator(".sides .json").nth(1).waitFor();
          await picture(page, "console-trace");
          await open(page, "overview");
          for (let at = 0; at < 8; at++) {
            await daemon.pipe([["command", "Bank.Crash", {}], ["command", "Timer.Schedule", { delay: 0, message: { kind: "command", type: "Bank.Charge", data: { amount: 500 + at } } }]]);
            await new Promise((resolve) => setTimeout(resolve, 400));
          }
          await page.locator(".attention", { hasText: "bank failed too often" }).waitFor();
          await page.waitForTimeout(4000);
          await open(page, "capabilities", "bank");
          await eventually("it says why", async () => (await page.locator(".capability").innerText()).includes("the vault is empty"));
          await page.waitForTimeout(1500);
          await picture(page, "console-sick");
          assert.equal(await page.locator(".detail-head .state", { hasText: "unhealthy" }).count(), 1);
          await stop();
        },
        { viewport: WIDE, colorScheme: "light", capabilities: ["orders", "stock", "bank", "mailer", "guest"] },
      ),
  ],
];
