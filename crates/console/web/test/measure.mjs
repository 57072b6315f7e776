// What an open console costs the daemon: `cargo xtask bench console [-- --rate 10000] [--seconds
// 10] [--rounds 5] [--quick]`. The same load with and without a page, turn by turn, and the median
// of the differences; and what an idle daemon does for one. It fails beyond the bounds, unless the
// machine had so much else to do that the turns without a page differ by as much.
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import process from "node:process";
import { parseArgs } from "node:util";
import { launch, openPage } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";

const { values } = parseArgs({
  options: { rate: { type: "string", default: "10000" }, seconds: { type: "string", default: "10" }, rounds: { type: "string", default: "5" }, quick: { type: "boolean", default: false } },
});
const rate = Number(values.rate);
const seconds = values.quick ? 2 : Number(values.seconds);
const rounds = values.quick ? 1 : Number(values.rounds);
/** The share of a core that an open console may cost at that rate. */
const SHARE_MAX = 0.02;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Nanoseconds of CPU that the daemon's own thread has used. */
const cpu = (pid) => Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]);

/** Commands at a steady rate on one connection. */
function load(daemon) {
  const socket = connect(daemon.socket);
  const count = { sent: 0, replies: 0, errors: 0 };
  let rest = "";
  socket.on("data", (bytes) => {
    const lines = (rest + bytes).split("\n");
    rest = lines.pop();
    for (const line of lines) count[line.includes('"kind":"error"') ? "errors" : "replies"] += 1;
  });
  const start = Date.now();
  const timer = setInterval(() => {
    const due = Math.floor(((Date.now() - start) * rate) / 1000);
    let text = "";
    for (; count.sent < due; count.sent++) text += `{"kind":"command","type":"Memory.Set","data":{"key":"k${count.sent % 100}","value":${count.sent}},"metadata":{"id":"l${start}-${count.sent}","timestamp":${Date.now()}}}\n`;
    if (text !== "") socket.write(text);
  }, 2);
  return {
    count,
    end: () => {
      clearInterval(timer);
      socket.destroy();
    },
  };
}

async function share(daemon, making) {
  const [before, answered, start] = [cpu(daemon.child.pid), making?.count.replies ?? 0, process.hrtime.bigint()];
  await sleep(seconds * 1000);
  const took = Number(process.hrtime.bigint() - start);
  return { share: (cpu(daemon.child.pid) - before) / took, rate: ((making?.count.replies ?? 0) - answered) / (took / 1e9) };
}

const middle = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const percent = (value) => `${(value * 100).toFixed(2)} %`;

const daemon = await Daemon.start({ capabilities: false, journal: false, native: ["Memory"] });
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
const wakes = async (work) => {
  const before = daemon.sleeps();
  const told = await work();
  return { ...told, perSecond: (daemon.sleeps() - before) / seconds };
};
const alone = await wakes(() => share(daemon));
const idle = await withPage(() => wakes(() => share(daemon)));
console.log(`idle without a console: ${percent(alone.share)} of a core, woken ${alone.perSecond.toFixed(1)} times a second`);
console.log(`idle with one:          ${percent(idle.share)} of a core, woken ${idle.perSecond.toFixed(1)} times a second`);
const making = load(daemon);
await sleep(2000);
const [costs, bare] = [[], []];
for (let round = 0; round < rounds; round++) {
  const before = await share(daemon, making);
  const open = await withPage(() => share(daemon, making));
  const after = await share(daemon, making);
  const without = (before.share + after.share) / 2;
  bare.push(before.share, after.share);
  costs.push(open.share - without);
  console.log(`${Math.round(before.rate)}/s without: ${percent(without)}; ${Math.round(open.rate)}/s with one: ${percent(open.share)}; it costs ${percent(open.share - without)}`);
}
making.end();
const cost = middle(costs);
const noise = Math.max(...bare) - Math.min(...bare);
console.log(`at ${rate}/s an open console costs ${percent(cost)} of a core (at most ${percent(SHARE_MAX)}); turns without one differ by ${percent(noise)}`);
await browser.close();
await daemon.end();
const wrong = [];
if (making.count.errors > 0) wrong.push(`${making.count.errors} commands failed`);
if (alone.perSecond > 0) wrong.push("an idle daemon without a console was woken");
if (cost > SHARE_MAX && noise < cost) wrong.push(`an open console costs ${percent(cost)}`);
for (const text of wrong) console.error(`console: ${text}`);
process.exit(wrong.length > 0 ? 1 : 0);
