// Round trips through a real daemon: the CPU time of a capability and of a client that use the SDK,
// beside the same by hand.
//
//     MAINSPRING=target/release/mainspring node bench/run.mjs [--count 100000] [--rounds 5] [--json FILE]
//
// Run it where the package is installed: `ci.sh` leaves a copy in
// target/sdk/typescript/dev/run/bench. The least of the rounds counts; they alternate, so that a
// busy machine is busy for both. The bound is 1.15 times the CPU time of the program by hand.
// Schemas of zod both ways, which the one by hand does not check, are for information.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const option = (name, otherwise) =>
  process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : otherwise;
const COUNT = Number(option("--count", "100000"));
const ROUNDS = Number(option("--rounds", "5"));
const BOUND = 1.15;
/** What the system counts CPU time of others in, in microseconds. */
const TICK_US = 10_000;
const DATA = JSON.stringify({ text: "a note of some length, as they are", number: 42, list: [1, 2, 3] });

async function startDaemon(program) {
  const folder = mkdtempSync(join(tmpdir(), "ms-"));
  const inbound = { properties: { kind: { const: "query" }, type: { const: "Bench.Echo" } } };
  const manifest = {
    id: "echo",
    description: "Echoes.",
    inbound,
    limits: { concurrency: 64 },
    program: { process: ["node", join(here, program ?? "")] },
  };
  writeFileSync(join(folder, "capability.json"), JSON.stringify(manifest));
  const manifests = program === undefined ? "" : 'manifests = ["capability.json"]\n';
  writeFileSync(join(folder, "mainspring.toml"), `${manifests}[[listen]]\nunix = "app.sock"\n`);
  const child = spawn(process.env.MAINSPRING ?? "mainspring", ["up", "--json"], {
    cwd: folder,
    stdio: ["ignore", "pipe", "ignore"],
  });
  await once(createInterface({ input: child.stdout }), "line");
  return {
    socket: join(folder, "app.sock"),
    pid: child.pid,
    async stop() {
      child.kill();
      await once(child, "exit");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The CPU time of the daemon's one child, in microseconds. */
function childCpu(pid) {
  const child = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ")[0];
  const fields = readFileSync(`/proc/${child}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
}

async function load(which, socket, type, inFlight, onWarm = () => {}) {
  const words = [join(here, "load.mjs"), which, socket, type, String(COUNT), String(inFlight), DATA];
  const child = spawn("node", words, { stdio: ["ignore", "pipe", "inherit"] });
  let result;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === "warm") onWarm();
    else result = JSON.parse(line);
  }
  if (result === undefined) throw new Error(`the load by ${which} failed`);
  return result;
}

/** Microseconds of CPU per request of a capability. */
async function capability(program, inFlight) {
  const daemon = await startDaemon(program);
  try {
    let before = 0;
    await load("hand", daemon.socket, "Bench.Echo", inFlight, () => {
      before = childCpu(daemon.pid);
    });
    return (childCpu(daemon.pid) - before) / COUNT;
  } finally {
    await daemon.stop();
  }
}

/** Microseconds of CPU per request of a client, with the daemon's own echo. */
async function client(which, inFlight) {
  const daemon = await startDaemon(undefined);
  try {
    return (await load(which, daemon.socket, "Syscall.Ping", inFlight)).cpuUs / COUNT;
  } finally {
    await daemon.stop();
  }
}

const cases = [1, 16].map((inFlight) => ({
  name: `capability, ${inFlight} in flight`,
  hand: () => capability("hand-capability.mjs", inFlight),
  sdk: () => capability("sdk-capability.mjs", inFlight),
  zod: () => capability("zod-capability.mjs", inFlight),
}));
cases.push(
  ...[1, 64].map((inFlight) => ({
    name: `client, ${inFlight} in flight`,
    hand: () => client("hand", inFlight),
    sdk: () => client("sdk", inFlight),
  })),
);

const results = [];
let isWithin = true;
console.log(`microseconds of CPU per request, the least of ${ROUNDS} rounds of ${COUNT}`);
for (const each of cases) {
  const least = { hand: Infinity, sdk: Infinity, zod: Infinity };
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const who of ["hand", "sdk", "zod"])
      if (each[who] !== undefined) least[who] = Math.min(least[who], await each[who]());
  }
  const ratio = least.sdk / least.hand;
  isWithin &&= ratio <= BOUND;
  results.push({ case: each.name, ...least, ratio });
  const zod = Number.isFinite(least.zod) ? `, with zod ${least.zod.toFixed(2)}` : "";
  console.log(
    `${each.name.padEnd(28)} by hand ${least.hand.toFixed(2)}, SDK ${least.sdk.toFixed(2)} (${ratio.toFixed(2)} x)${zod}`,
  );
}
const file = option("--json", undefined);
if (file !== undefined) writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`);
if (!isWithin) console.log(`beyond the bound of ${BOUND} x`);
// A short run shows figures that mean little.
process.exitCode = isWithin || process.env.BENCH_UNJUDGED ? 0 : 1;
