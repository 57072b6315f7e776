// Runs the tests of the page, one after the other in one browser, and ends with a line that counts
// them.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { launch, program as browserProgram } from "./browser.mjs";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const wanted = process.argv.slice(2);
const PATIENCE_MS = 240_000;
const count = { passed: 0, failed: 0, skipped: 0 };

async function test(name, run) {
  if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) return;
  const start = Date.now();
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it took longer than ${PATIENCE_MS} ms`)), PATIENCE_MS);
  });
  try {
    const skipped = await Promise.race([run(), late]);
    count[skipped === "skipped" ? "skipped" : "passed"] += 1;
    console.log(`${skipped === "skipped" ? "skip" : "ok  "} console: ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
  } catch (error) {
    count.failed += 1;
    console.log(`FAIL console: ${name}\n${error.stack ?? error}`);
  } finally {
    clearTimeout(timer);
  }
}

function tool(...words) {
  const { status, stdout, stderr } = spawnSync(words[0], words.slice(1), { cwd: web, encoding: "utf8" });
  if (status !== 0) throw new Error(`${words.join(" ")}: ${stdout}${stderr}`);
}

await test("the types fit", async () => tool("node_modules/.bin/tsc", "--noEmit"));
await test("the assets come from these sources, and weigh little", async () => tool(process.execPath, "build.mjs", "--check"));

if (!browserProgram || !existsSync(browserProgram)) {
  console.log("missing: chromium; install the package chromium");
  count.skipped += 1;
} else {
  const { tests } = await import("./tests/index.mjs");
  const browser = await launch();
  for (const [name, run] of tests) await test(name, () => run(browser));
  await browser.close();
}
console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
process.exit(count.failed > 0 ? 1 : 0);
