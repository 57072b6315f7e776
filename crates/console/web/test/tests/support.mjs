// What tests share: a page at a daemon, and waiting for what is to become true.
import assert from "node:assert/strict";
import { openPage } from "../browser.mjs";
import { Daemon } from "../daemon.mjs";
import { Mock } from "../mock.mjs";

export { assert };

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

/** Runs a test with a page that is signed in at a real daemon; the page must not have done what pages should not do. */
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

/** The number in a cell of the strip. */
export async function cell(page, label) {
  return await page.locator(".cell", { hasText: label }).locator(".cell-value").innerText();
}
