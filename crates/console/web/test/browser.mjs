// Chromium for tests: Debian's, driven by playwright-core. Every page watches itself: an error in
// its console, or a request to another origin, is remembered and fails the test that opened it.
import { chromium } from "playwright-core";
import { existsSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
export const program = process.env.CHROMIUM ?? PLACES.find((path) => existsSync(path));

/** How long something may take to show: machines that run tests are busy. */
const PATIENCE_MS = 60_000;
export const WIDE = { width: 1440, height: 900 };
export const SMALL = { width: 390, height: 844 };

export async function launch() {
  return await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage", "--font-render-hinting=none"] });
}

/**
 * With CONSOLE_ASSETS=1 pages are those in ../assets, whatever the daemon carries: for working on
 * them without building it.
 */
async function serveAssets(context) {
  for (const name of ["index.html", "console.js", "console.css"]) {
    const path = fileURLToPath(new URL(`../../assets/${name}`, import.meta.url));
    await context.route((url) => url.pathname === (name === "index.html" ? "/" : `/${name}`), async (route) => {
      const { headers } = await fetch(route.request().url());
      await route.fulfill({ path, headers: { "content-type": headers.get("content-type"), "content-security-policy": headers.get("content-security-policy") } });
    });
  }
}

/** A page that notes what it should not do. */
export async function openPage(browser, { viewport = WIDE, colorScheme = "light", expected = [] } = {}) {
  const context = await browser.newContext({ viewport, colorScheme, deviceScaleFactor: viewport.width < 500 ? 2 : 1, permissions: ["clipboard-read", "clipboard-write"] });
  if (process.env.CONSOLE_ASSETS) await serveAssets(context);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const faults = [];
  let origin = null;
  page.on("console", (message) => {
    if (message.type() === "error" && !expected.some((pattern) => pattern.test(message.text()))) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.stack ?? error.message}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol === "data:" || url.protocol === "blob:") return;
    origin ??= url.origin;
    if (url.origin !== origin) faults.push(`foreign request: ${request.url()}`);
  });
  return { page, context, faults };
}
