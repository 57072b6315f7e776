// What an open console costs the daemon: `MAINSPRING=target/release/mainspring node test/measure.mjs [MESSAGES A SECOND] [SECONDS]`.
// The same load with and without a page, turn by turn; and what an idle daemon does for one. Use an optimised daemon.
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import process from "node:process";
import { launch, openPage } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";

const rate = Number(process.argv[2] ?? 10_000);
const seconds = Number(process.argv[3] ?? 10);
const ROUNDS = 3;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Nanoseconds of CPU that the daemon's own thread has used. */
const cpu = (pid) => Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]);

/** Commands at a steady rate on one connection. */
function load(daemon) {
  const socket = connect(daemon.socket);
  let [sent, answered] = [0, 0];
  socket.on("data", (bytes) => {
    for (const byte of bytes) if (byte === 10) answered += 1;
  });
  const start = Date.now();
  const timer = setInterval(() => {
    const due = Math.floor(((Date.now() - start) * rate) / 1000);
    let text = "";
    for (; sent < due; sent++) text += `{"kind":"command","type":"Memory.Set","data":{"key":"k${sent % 100}","value":${sent}},"metadata":{"id":"l${start}-${sent}","timestamp":${Date.now()}}}\n`;
    if (text !== "") socket.write(text);
  }, 2);
  return {
    answered: () => answered,
    end: () => {
      clearInterval(timer);
      socket.destroy();
    },
  };
}

async function share(daemon, making) {
  const [before, answered, start] = [cpu(daemon.child.pid), making?.answered() ?? 0, process.hrtime.bigint()];
  await sleep(seconds * 1000);
  const took = Number(process.hrtime.bigint() - start);
  return { share: (cpu(daemon.child.pid) - before) / took, rate: ((making?.answered() ?? 0) - answered) / (took / 1e9) };
}

const daemon = await Daemon.start({ capabilities: false, journal: false });
const browser = await launch();
async function withPage(work) {
  const { page, context } = await openPage(browser);
  await page.goto(await daemon.console());
  await page.waitForSelector(".link-live", { state: "attached" });
  await sleep(2000);
  const told = await work();
  await context.close();
  await sleep(500);
  return told;
}
const percent = (value) => `${(value * 100).toFixed(2)} %`;
console.log(`idle without a console: ${percent((await share(daemon)).share)} of a core`);
console.log(`idle with one:          ${percent((await withPage(() => share(daemon))).share)}`);
const making = load(daemon);
await sleep(2000);
const costs = [];
for (let round = 0; round < ROUNDS; round++) {
  const without = await share(daemon, making);
  const open = await withPage(() => share(daemon, making));
  costs.push(open.share - without.share);
  console.log(`${Math.round(without.rate)}/s without: ${percent(without.share)}; ${Math.round(open.rate)}/s with one: ${percent(open.share)}; it costs ${percent(open.share - without.share)}`);
}
making.end();
console.log(`at ${rate}/s an open console costs ${percent(costs.sort((a, b) => a - b)[1])} of a core`);
await browser.close();
await daemon.end();
