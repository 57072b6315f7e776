// How it looks: what axe says about each panel, at both sizes and in both themes; and screenshots
// of all of it as build output.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import process from "node:process";
import { openPage, SMALL, WIDE } from "../browser.mjs";
import { Mock } from "../mock.mjs";
import { assert, atMock, AWAY, live, open, REFUSED } from "./support.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const folder = resolve(process.env.CONSOLE_TARGET ?? "shots");
const PANELS = ["overview", "stream", "traces", "capabilities", "call", "letters", "timers", "journal"];
const MOODS = ["empty", "busy", "sick"];
const THEMES = ["light", "dark"];
const SIZES = [["1440x900", WIDE], ["390x844", SMALL]];
/** How long charts are watched before they are shown. */
const WATCHED_MS = 15_000;

/** Opens something in a panel that has something to open. */
export async function fill(page, panel, mood) {
  await open(page, panel);
  await page.waitForTimeout(600);
  if (mood === "empty") return;
  if (panel === "stream") await page.keyboard.press("p");
  if (panel === "stream" || panel === "traces") await page.locator(".virtual-row", { hasText: /Order\.Place(?!d)/ }).first().dispatchEvent("click");
  if (panel === "capabilities") await open(page, panel, mood === "sick" ? "payments" : "pricing");
  if (panel === "call") {
    await open(page, panel, "Order.Place");
    await page.getByLabel("customer").fill("Ada Lovelace");
    await page.getByRole("button", { name: "Add", exact: true }).click();
  }
  await page.waitForTimeout(500);
}

/** axe is put into the page by the browser itself: the page's own policy lets nothing in. */
async function violations(page, where) {
  await page.evaluate(axe);
  return await page.evaluate(async (place) => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${place}: ${id}: ${nodes.slice(0, 3).map((node) => `${node.target} (${node.failureSummary})`).join(" | ")}`);
  }, where);
}

async function everyPanel(browser, colorScheme, [size, viewport]) {
  const found = [];
  for (const mood of ["empty", "sick"])
    await atMock(browser, async (page) => {
      for (const panel of PANELS) {
        await fill(page, panel, mood);
        found.push(...(await violations(page, `${mood} ${panel} ${size}`)));
      }
    }, { mood, colorScheme, viewport });
  return found;
}

/**
 * What is seldom seen: signing in, dialogs, complaints, a token with few rights, a daemon that is
 * away.
 */
async function seldomSeen(browser, colorScheme) {
  const found = [];
  const look = async (page, where) => found.push(...(await violations(page, where)));
  await atMock(browser, async (page) => {
    await page.keyboard.press("?");
    await page.locator("dialog").waitFor();
    await look(page, "keys");
    await page.keyboard.press("Escape");
    await open(page, "letters");
    await page.locator(".rows .link-button").first().click();
    await page.getByRole("button", { name: "Edit" }).click();
    await look(page, "a dead letter");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: /^Drop all/ }).click();
    await look(page, "a question");
    await page.keyboard.press("Escape");
    await open(page, "call", "Order.Place");
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator(".complaint").first().waitFor();
    await look(page, "a complaint");
    await page.getByRole("button", { name: "Sign out" }).first().click();
    await page.getByText("Open the console").waitFor();
    await look(page, "signing in");
  }, { mood: "sick", colorScheme, expected: REFUSED });
  await atMock(browser, async (page) => {
    for (const panel of PANELS) {
      await open(page, panel);
      await page.waitForTimeout(300);
      await look(page, `read-only ${panel}`);
    }
  }, { mood: "busy", operator: false, colorScheme, expected: REFUSED });
  const mock = await new Mock({ mood: "busy" }).listen();
  mock.once.add("first");
  const { page, context } = await openPage(browser, { colorScheme, expected: AWAY });
  await page.goto(`${mock.url}/#t=first`);
  await live(page);
  await mock.close();
  await page.getByText("The daemon is away.").waitFor();
  await look(page, "away");
  await context.close();
  return found;
}

/** Every panel of a mood in one theme and size. */
async function shoot(browser, mood, colorScheme, [size, viewport]) {
  await atMock(browser, async (page) => {
    await page.waitForTimeout(mood === "empty" ? 1500 : WATCHED_MS);
    for (const panel of PANELS) {
      if (panel !== "overview") await fill(page, panel, mood);
      await page.screenshot({ path: join(folder, `${mood}-${panel}-${colorScheme}-${size}.png`) });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${panel} is ${overflow} pixels wider than the screen`);
    }
  }, { mood, colorScheme, viewport });
}

export const tests = [
  ...THEMES.map((colorScheme) => [
    `axe finds nothing in any panel at either size (${colorScheme})`,
    async (browser) => assert.deepEqual((await Promise.all(SIZES.map((size) => everyPanel(browser, colorScheme, size)))).flat(), []),
  ]),
  ...THEMES.map((colorScheme) => [`axe finds nothing in what is seldom seen (${colorScheme})`, async (browser) => assert.deepEqual(await seldomSeen(browser, colorScheme), [])]),
  ...MOODS.map((mood) => [
    `screenshots of a daemon that is ${mood}, in both themes and sizes, none wider than its screen`,
    async (browser) => {
      mkdirSync(folder, { recursive: true });
      await Promise.all(THEMES.flatMap((colorScheme) => SIZES.map((size) => shoot(browser, mood, colorScheme, size))));
    },
  ]),
];
