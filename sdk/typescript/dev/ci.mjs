// Builds, packs and tests the SDK; see ci.sh. What it installs and makes is below SDK_TARGET.
import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const sdk = dirname(dirname(fileURLToPath(import.meta.url)));
const target = resolve(process.env.SDK_TARGET);
/**
 * Where the tools are installed, and where the tests run: they find the packed SDK in its
 * node_modules.
 */
const dev = join(target, "dev");
const work = join(dev, "run");
/**
 * Other runtimes, by their package on npm; Node 22 is installed by a script that others use too.
 */
const RUNTIMES = { deno: ["deno", "2.9.6"], bun: ["bun", "1.4.4"] };
const DENO = ["--allow-all", "--no-lock", "--node-modules-dir=manual", "--quiet"];

const count = { passed: 0, failed: 0, skipped: 0 };
const failures = [];

function note(name, { passed = 0, failed = 0, skipped = 0 }) {
  count.passed += passed;
  count.failed += failed;
  count.skipped += skipped;
  if (failed > 0) failures.push(name);
}

/** Runs a command quietly; its output is told if it fails. */
function quiet(command, words, cwd, more = {}) {
  const { status, stdout, stderr, error } = spawnSync(command, words, { cwd, encoding: "utf8", ...more });
  if (status !== 0)
    throw new Error(
      `\`${command} ${words.join(" ")}\` failed: ${error?.message ?? ""}\n${stdout ?? ""}${stderr ?? ""}`,
    );
  return stdout;
}

function step(name, run) {
  const start = Date.now();
  try {
    run();
    note(name, { passed: 1 });
    console.log(`ok   typescript: ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
    return true;
  } catch (error) {
    note(name, { failed: 1 });
    console.log(`FAIL typescript: ${name}\n${error.message}`);
    return false;
  }
}

/** The tools, as the lock file has them; installed when that changed. */
function install() {
  mkdirSync(dev, { recursive: true });
  const lock = readFileSync(join(sdk, "dev/package-lock.json"), "utf8");
  const stamp = join(dev, "installed.lock");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  for (const file of ["package.json", "package-lock.json"]) cpSync(join(sdk, "dev", file), join(dev, file));
  quiet("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], dev);
  writeFileSync(stamp, lock);
}

const tsc = () => join(dev, "node_modules/.bin/tsc");

/** Compiles into a folder. */
function compile(folder) {
  rmSync(folder, { recursive: true, force: true });
  quiet(tsc(), ["-p", sdk, "--outDir", folder, "--typeRoots", join(dev, "node_modules/@types")], dev);
}

/** The text of every file below a folder. */
function tree(folder, prefix = "") {
  return readdirSync(join(folder, prefix), { withFileTypes: true })
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .flatMap((entry) =>
      entry.isDirectory()
        ? tree(folder, join(prefix, entry.name))
        : [[join(prefix, entry.name), readFileSync(join(folder, prefix, entry.name), "utf8")]],
    );
}

/** Makes sure that dist/, which the daemon's program carries, is what the sources say. */
function compareDist() {
  const built = join(target, "dist");
  compile(built);
  const [wanted, found] = [tree(built), existsSync(join(sdk, "dist")) ? tree(join(sdk, "dist")) : []];
  if (JSON.stringify(wanted) === JSON.stringify(found)) return;
  const names = new Map(found);
  const changed = wanted.filter(([name, text]) => names.get(name) !== text).map(([name]) => name);
  throw new Error(
    `dist/ is not what the sources say (${changed.join(", ") || "files too many"}): run sdk/typescript/ci.sh build`,
  );
}

/** Packs as for npm, and installs the package as a user would. */
function pack() {
  const folder = join(target, "pack");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const name of ["package.json", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "dist"])
    cpSync(join(sdk, name), join(folder, name), { recursive: true });
  for (const name of ["LICENSE-MIT", "LICENSE-APACHE"]) {
    if (readFileSync(join(sdk, name), "utf8") !== readFileSync(join(sdk, "../..", name), "utf8"))
      throw new Error(`${name} is not that of the repository`);
  }
  const [{ filename, files }] = JSON.parse(quiet("npm", ["pack", "--json"], folder));
  const stray = files
    .map((file) => file.path)
    .filter((path) => !/^(dist\/.*\.(js|d\.ts)|README\.md|LICENSE-\w+|package\.json)$/.test(path));
  const missing = [
    "README.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "dist/index.js",
    "dist/index.d.ts",
    "dist/testing.js",
    "dist/bin.js",
  ].filter((path) => !files.some((file) => file.path === path));
  if (missing.length > 0) throw new Error(`the package lacks ${missing.join(", ")}`);
  if (stray.length > 0) throw new Error(`the package has more than it should: ${stray.join(", ")}`);
  quiet(
    "npm",
    ["install", "--no-save", "--offline", "--no-audit", "--no-fund", "--loglevel=error", join(folder, filename)],
    dev,
  );
}

/** The tests where they find the installed package, and data that Node 20 cannot read as it is. */
function prepare() {
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  for (const name of ["test", "conformance", "bench", "skeleton"])
    cpSync(join(sdk, name), join(work, name), { recursive: true });
  const data = join(work, "test/data");
  const options = [
    "--target",
    "es2022",
    "--module",
    "nodenext",
    "--skipLibCheck",
    "--types",
    "node",
    "--lib",
    "es2023,dom",
  ];
  quiet(
    tsc(),
    [...options, "--outDir", join(data, "compiled"), ...readdirSync(data).map((name) => join(data, name))],
    dev,
  );
}

const FORMATTED = ["src", "test", "conformance", "bench", "skeleton", "dev"];

/** Formats the sources, or makes sure that they are. */
function format(flag) {
  const patterns = FORMATTED.map((folder) => `${folder}/**/*.{ts,mjs}`);
  quiet(join(dev, "node_modules/.bin/prettier"), ["--no-config", "--print-width=120", flag, ...patterns], sdk);
}

/**
 * What the compiler knows of the installed package; and that it needs neither the types of the Web
 * nor the newest resolution.
 */
function checkTypes() {
  const options = ["--noEmit", "--strict", "--target", "es2022", "--types", "node", "--exactOptionalPropertyTypes"];
  const node = ["--module", "nodenext"];
  const bundler = ["--module", "esnext", "--moduleResolution", "bundler"];
  const check = (file, ...more) => quiet(tsc(), [...options, ...more, join(work, "test", file)], dev);
  check("types.ts", ...node, "--lib", "es2023,esnext.disposable,dom");
  check("types-without-dom.ts", ...node, "--lib", "es2023,esnext.disposable");
  check("types-without-dom.ts", ...bundler, "--lib", "es2022,dom");
}

/** The program of a runtime, which is installed once. */
async function runtime(name, [pack, version]) {
  const folder = join(target, "runtimes", name);
  const program = join(folder, "node_modules/.bin", pack);
  const stamp = join(folder, "version");
  const isThere = () =>
    existsSync(stamp) && readFileSync(stamp, "utf8") === version && spawnSync(program, ["--version"]).status === 0;
  if (!isThere()) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), '{"private":true}\n');
    const words = ["install", "--prefix", folder, "--no-audit", "--no-fund", "--loglevel=error", `${pack}@${version}`];
    const { text } = await show("npm", words, {}, folder);
    writeFileSync(stamp, version);
    if (!isThere()) throw new Error(`${pack} ${version} cannot be installed: ${text}`);
  }
  return name === "deno" ? [program, "run", ...DENO] : [program];
}

async function node22() {
  const { status, text } = await show(join(sdk, "../node22.sh"), [dirname(target)], {}, target);
  if (status !== 0) throw new Error(`Node 22 cannot be installed: ${text}`);
  return [text.trim().split("\n").at(-1)];
}

/** The programs of the runtimes; one that cannot be installed is a failure. */
async function runtimes() {
  const wanted = { node22: node22() };
  for (const [name, pack] of Object.entries(RUNTIMES)) wanted[name] = runtime(name, pack);
  const found = { node: [process.execPath] };
  for (const [name, program] of Object.entries(wanted)) {
    try {
      found[name] = await program;
    } catch (error) {
      note(name, { failed: 1 });
      console.log(`FAIL typescript: ${error.message}`);
    }
  }
  return found;
}

/** Runs a command, shows what it says, and gives its last lines. */
function show(command, words, env = {}, cwd = work) {
  return new Promise((done) => {
    const child = spawn(command, words, {
      cwd,
      env: { ...process.env, NO_COLOR: "1", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (more) => (text += more));
    child.on("close", (status) => done({ status, text }));
    child.on("error", (error) => done({ status: 1, text: error.message }));
  });
}

/** The package's own tests on a runtime. */
async function unitTests(name, command) {
  const [program] = command;
  const files = readdirSync(join(work, "test"))
    .filter((file) => file.endsWith(".test.mjs"))
    .map((file) => `./test/${file}`);
  const words =
    name === "deno"
      ? ["test", ...DENO, ...files]
      : name === "bun"
        ? ["test", ...files]
        : ["--test", "--test-reporter=tap", ...files];
  const { status, text } = await show(program, words);
  const number = (...patterns) =>
    Number(patterns.map((pattern) => text.match(pattern)?.[1]).find((each) => each !== undefined) ?? 0);
  const passed = number(/^# pass (\d+)/m, /(\d+) passed \|/, /^\s*(\d+) pass$/m);
  const failed = number(/^# fail (\d+)/m, /\| (\d+) failed/, /^\s*(\d+) fail$/m);
  const skipped = number(/^# skipped (\d+)/m, /\| (\d+) ignored/, /^\s*(\d+) skip$/m);
  if (status !== 0 || passed === 0) console.log(text);
  note(`unit tests on ${name}`, { passed, skipped, failed: status !== 0 || passed === 0 ? Math.max(failed, 1) : 0 });
  console.log(
    `${status === 0 ? "ok  " : "FAIL"} typescript: unit tests on ${name}: ${passed} passed, ${failed} failed, ${skipped} skipped`,
  );
}

/**
 * The suite of all SDKs on a runtime. Node has both transports; the others the one that differs
 * most between them.
 */
async function conformance(name, command) {
  const line = (file) => [...command, join(work, "conformance", file)].join(" ");
  const suite = join(sdk, "../conformance/run.py");
  const words = [
    suite,
    "--daemon",
    process.env.MAINSPRING,
    "--name",
    `typescript on ${name}`,
    "--capability",
    line("capability.mjs"),
    "--client",
    line("client.mjs"),
  ];
  if (name !== "node") words.push("--transport", "unix");
  const { status, text } = await show("python3", words);
  console.log(
    text
      .split("\n")
      .filter((each) => !each.startsWith("ok "))
      .join("\n"),
  );
  const [, passed, failed, skipped] = text.match(/(\d+) passed, (\d+) failed, (\d+) skipped\s*$/) ?? [0, 0, 1, 0];
  note(`conformance on ${name}`, {
    passed: Number(passed),
    failed: status === 0 ? Number(failed) : Math.max(1, Number(failed)),
    skipped: Number(skipped),
  });
}

async function main() {
  if (!step("tools", install)) {
    console.log("0 passed, 1 failed, 0 skipped");
    return 1;
  }
  if (process.argv[2] === "build") {
    format("--write");
    compile(join(sdk, "dist"));
    return 0;
  }
  if (process.argv[2] === "prepare") return step("the package", pack) & step("test data", prepare) ? 0 : 1;
  // While the compiler works, they are fetched.
  const programs = runtimes();
  step("formatting", () => format("--check"));
  const isPacked =
    step("dist/ is what the sources say", compareDist) & step("the package", pack) & step("test data", prepare);
  if (isPacked) {
    step("types", checkTypes);
    const only = process.argv[2];
    // Two at a time: much of the time they wait.
    const waiting = Object.entries(await programs).filter(([name]) => only === undefined || only === name);
    const worker = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        await unitTests(...next);
        await conformance(...next);
      }
    };
    await Promise.all([worker(), worker()]);
  }
  for (const failure of failures) console.log(`failed: typescript: ${failure}`);
  console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
  return count.failed > 0 ? 1 : 0;
}

process.exitCode = await main();
