// How it looks: screenshots as build output, and what axe says about each panel.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import process from "node:process";
import { SMALL, WIDE } from "../browser.mjs";
import { assert, atMock, open } from "./support.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const folder = resolve(process.env.CONSOLE_TARGET ?? "shots");
const PANELS = ["overview", "stream", "traces", "capabilities", "call", "letters", "timers", "journal"];

/** Opens something in a panel that has something to open. */
async function fill(page, panel, mood) {
  await open(page, panel);
  await page.waitForTimeout(600);
  if (panel === "stream" && mood !== "empty") await page.keyboard.press("p");
  if ((panel === "stream" || panel === "traces") && mood !== "empty") await page.locator(".virtual-row", { hasText: "Order.Place" }).first().dispatchEvent("click");
  if (panel === "capabilities" && mood !== "empty") await open(page, panel, mood === "sick" ? "payments" : "pricing");
  if (panel === "call" && mood !== "empty") await open(page, panel, "Order.Place");
  await page.waitForTimeout(500);
}

/** axe is put into the page by the browser itself: the page's own policy lets nothing in. */
async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.target} (${node.failureSummary})`).join(" | ")}`);
  });
  return found;
}

/** How long charts are watched before they are shown. */
const WATCHED_MS = 12_000;
const SIZES = [["1440x900", WIDE], ["390x844", SMALL]];
const SHOTS = { empty: ["overview", "stream"], busy: PANELS, sick: ["overview", "capabilities", "letters"] };

/** Every panel of a mood in one theme and size. */
async function shoot(browser, mood, colorScheme, [size, viewport]) {
  await atMock(browser, async (page) => {
    await page.waitForTimeout(mood === "empty" ? 1500 : WATCHED_MS);
    for (const panel of colorScheme === "dark" ? ["overview"] : SHOTS[mood]) {
      if (panel !== "overview") await fill(page, panel, mood);
      await page.screenshot({ path: join(folder, `${mood}-${panel}-${colorScheme}-${size}.png`) });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${panel} is ${overflow} pixels wider than the screen`);
    }
  }, { mood, colorScheme, viewport });
}

export const tests = [
  ...["light", "dark"].map((colorScheme) => [
    `axe finds nothing in any panel (${colorScheme})`,
    async (browser) => {
      const found = [];
      for (const mood of ["empty", "sick"])
        await atMock(browser, async (page) => {
          for (const panel of PANELS) {
            await fill(page, panel, mood);
            for (const violation of await violations(page)) found.push(`${mood} ${panel}: ${violation}`);
          }
        }, { mood, colorScheme });
      assert.deepEqual(found, []);
    },
  ]),
  ...Object.keys(SHOTS).map((mood) => [
    `screenshots of a daemon that is ${mood}, in both themes and sizes, none wider than its screen`,
    async (browser) => {
      mkdirSync(folder, { recursive: true });
      const all = ["light", "dark"].flatMap((colorScheme) => SIZES.map((size) => shoot(browser, mood, colorScheme, size)));
      await Promise.all(all);
    },
  ]),
];
