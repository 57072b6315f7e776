// What tests share: a page at a daemon, and waiting for what is to become true.
import assert from "node:assert/strict";
import { openPage } from "../browser.mjs";
import { Daemon } from "../daemon.mjs";
import { Mock } from "../mock.mjs";

export { assert };

/** What a browser writes by itself when the daemon refuses a request. */
export const REFUSED = [/Failed to load resource: the server responded with a status of 4\d\d/];
/** What it writes when the daemon is away. */
export const AWAY = [/Failed to load resource/];

/** Waits until something holds. */
export async function eventually(what, check, ms = 20_000) {
  const end = Date.now() + ms;
  let last;
  while (Date.now() < end) {
    try {
      if (await check()) return;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not in ${ms} ms: ${what}${last ? `\n${last.message}` : ""}`);
}

/**
 * Runs a test with a page that is signed in at a real daemon; the page must not have done what
 * pages should not do.
 */
export async function atDaemon(browser, test, options = {}) {
  const daemon = await Daemon.start(options);
  const { page, context, faults } = await openPage(browser, options);
  try {
    await page.goto(await daemon.console());
    await live(page);
    await test(page, daemon, faults);
    assert.deepEqual(faults, []);
  } catch (error) {
    error.message += `\n${daemon.log.slice(-2000)}`;
    throw error;
  } finally {
    await context.close();
    await daemon.end();
  }
}

/** The same at a daemon that is made up. */
export async function atMock(browser, test, { mood, operator, perSecond, ...options } = {}) {
  const mock = await new Mock({ mood, operator, perSecond }).listen();
  mock.once.add("first");
  const { page, context, faults } = await openPage(browser, options);
  try {
    await page.goto(`${mock.url}/#t=first`);
    await live(page);
    await test(page, mock, faults);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
    await mock.close();
  }
}

export async function live(page) {
  await page.waitForSelector(".link-live", { state: "attached" });
}

/** Opens a panel, and perhaps something in it. */
export async function open(page, panel, item = "") {
  const hash = item === "" ? `#/${panel}` : `#/${panel}/${encodeURIComponent(item)}`;
  await page.evaluate((to) => (location.hash = to), hash);
  await page.waitForSelector(`.panel-${panel}`);
}

/** Presses Tab until what has the focus fits; `fits` runs in the page. */
export async function tabTo(page, what, fits, argument) {
  for (let at = 0; at < 120; at++) {
    if (await page.evaluate(fits, argument)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`Tab does not reach ${what}`);
}

/** The same for a button or link by its words. */
export async function tabToWords(page, words) {
  await tabTo(page, words, (wanted) => document.activeElement?.textContent?.trim() === wanted || document.activeElement?.getAttribute("aria-label") === wanted, words);
}

/** The number in a cell of the strip. */
export async function cell(page, label) {
  return await page.locator(".cell", { hasText: label }).locator(".cell-value").innerText();
}
