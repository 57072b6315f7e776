// A hostile capability and a hostile client: markup, escape codes, direction marks and megabytes,
// wherever they can write to.
import { HOSTILE } from "../mock.mjs";
import { assert, atDaemon, atMock, eventually, open } from "./support.mjs";

/** How long the page may be busy with one thing, on a machine that does other things as well. */
const FRAME_MS_MAX = 2000;

/** Begins to measure how long the page does not react. */
async function watchFrames(page) {
  await page.evaluate(() => {
    window.slowest = 0;
    let last = performance.now();
    const frame = () => {
      const now = performance.now();
      window.slowest = Math.max(window.slowest, now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}

/**
 * Nothing of it became markup, nothing of it is a code that moves what stands around it, and the
 * page was never stuck.
 */
async function harmless(page, where) {
  const found = await page.evaluate(() => ({
    text: document.body.innerText,
    titles: [...document.querySelectorAll("[title], [aria-label], [placeholder]")].map((element) => `${element.title} ${element.ariaLabel} ${element.getAttribute("placeholder")}`).join(" ") + document.title,
    hacked: window.hacked,
    slowest: window.slowest,
    elements: document.querySelectorAll("main img, main script, main iframe, main [onmouseover], main [onerror]").length,
  }));
  for (const code of [0x1b, 0x9b, 0x202e, 0]) {
    assert.ok(!found.text.includes(String.fromCharCode(code)), `${where}: code ${code} reached the page`);
    assert.ok(!found.titles.includes(String.fromCharCode(code)), `${where}: code ${code} reached a label`);
  }
  assert.equal(found.hacked, undefined, where);
  assert.equal(found.elements, 0, where);
  assert.ok(found.text.length < 500_000, `${where}: ${found.text.length} characters are shown`);
  assert.ok(found.slowest < FRAME_MS_MAX, `${where}: a frame took ${found.slowest} ms`);
}

const PLACES = [["overview"], ["stream"], ["traces"], ["capabilities"], ["capabilities", "hostile"], ["call"], ["call", "Hostile.Ask"], ["letters"], ["timers"], ["journal"]];

export const tests = [
  [
    "what a hostile capability or client writes is text, wherever it shows",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        await watchFrames(page);
        await open(page, "stream");
        await daemon.pipe([["query", "Hostile.Ask", { why: HOSTILE }], ["query", "Hostile.Ask", "large"], ["event", "Door.Rang", HOSTILE]]);
        // A client chooses ids, correlations and names of timers itself.
        const metadata = { id: `${HOSTILE}-id`, correlation: `${HOSTILE}-correlation`, timestamp: Date.now() };
        const timer = { kind: "command", type: "Timer.Schedule", data: { delay: 3_600_000, timerId: HOSTILE.replace("\0", ""), message: { kind: "query", type: "Hostile.Ask", data: HOSTILE } }, metadata: { id: "timer", timestamp: Date.now() } };
        const answers = await daemon.raw([{ kind: "query", type: "Hostile.Ask", data: 1, metadata }, timer]);
        assert.deepEqual(answers.map(({ kind }) => kind), ["reply", "reply"], JSON.stringify(answers));
        // One that fails is a dead letter with data that says so.
        await daemon.pipe([["command", "Timer.Schedule", { delay: 0, message: { kind: "command", type: "Bank.Charge", data: { amount: 500, [HOSTILE]: HOSTILE } } }]]);
        await eventually("all of it is shown", async () => (await page.locator(".virtual-row", { hasText: "Hostile.Ask" }).count()) >= 3);
        await page.keyboard.press("p");
        const rows = page.locator(".virtual-row", { hasText: "Hostile.Ask" });
        for (let at = 0; at < (await rows.count()); at++) {
          await rows.nth(at).click();
          await page.locator(".details").waitFor();
          await page.waitForTimeout(200);
          await harmless(page, `message ${at}`);
        }
        await eventually("there is a dead letter", async () => (await daemon.query("Sys.DeadLetters", { action: "list" })).letters.length > 0);
        for (const [panel, item] of PLACES) {
          await open(page, panel, item);
          await page.waitForTimeout(300);
          await page.mouse.move(500, 300);
          await harmless(page, `${panel} ${item ?? ""}`);
        }
        await open(page, "timers");
        await page.locator(".rows", { hasText: "<img src" }).waitFor();
        await harmless(page, "timers");
        await open(page, "letters");
        await page.getByRole("button", { name: "Bank.Charge" }).first().click();
        await page.locator("dialog", { hasText: "<script>" }).waitFor();
        await harmless(page, "a dead letter");
        await page.keyboard.press("Escape");
        await open(page, "capabilities", "hostile");
        await page.locator(".log", { hasText: "<script>" }).waitFor();
        // What is too long to be shown by itself is shown when somebody asks for it.
        await open(page, "call", "Hostile.Ask");
        await page.getByLabel("Data as JSON").fill('"large"');
        await page.getByRole("button", { name: "Ask" }).click();
        await page.locator(".result").getByRole("button", { name: /Show all \d+ KiB/ }).click();
        await eventually("all of it is there", async () => (await page.locator(".result pre").innerText()).length > 900_000);
        assert.equal(await page.locator(".result pre *").count(), 0, "it is text and nothing else");
      }),
  ],
  [
    "names and data of megabytes do not stop the page",
    async (browser) =>
      await atMock(
        browser,
        async (page) => {
          await watchFrames(page);
          for (const panel of ["overview", "capabilities", "stream", "traces", "letters", "timers", "call", "journal"]) {
            await open(page, panel);
            await page.waitForTimeout(500);
            await harmless(page, panel);
          }
          await page.evaluate(() => (location.hash = "#/capabilities"));
          await page.locator(".rows .name a").first().click();
          await page.locator(".detail-head").waitFor();
          await harmless(page, "a capability");
        },
        { mood: "hostile" },
      ),
  ],
];
