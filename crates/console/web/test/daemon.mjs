// A real daemon in a folder of its own, with capabilities that do what tests need, and a client that makes traffic.
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { execFile } from "node:child_process";

const here = dirname(fileURLToPath(import.meta.url));
export const program = process.env.MAINSPRING;
const run = promisify(execFile);
export const GUEST_TOKEN = "a-token-of-a-guest";

const message = (kind, type, data = true) => ({ type: "object", properties: { kind: { const: kind }, type: { const: type }, data } });
const object = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required, additionalProperties: false });

function manifests() {
  const script = (...words) => ({ process: [process.execPath, join(here, "capability.mjs"), ...words] });
  const restart = { backoff_ms: "100ms", max_restarts: 2, probe_ms: "60s" };
  const found = [
    {
      id: "orders", description: "Takes orders and sees them through.", program: script("orders"), restart, limits: { concurrency: 16 },
      inbound: {
        oneOf: [
          message("command", "Order.Place", object({
            customer: { type: "string", minLength: 2, description: "Who orders" }, quantity: { type: "integer", minimum: 1 },
            size: { enum: ["small", "large"] }, note: { type: "string" },
          }, ["customer", "quantity"])),
          message("query", "Order.Count", true),
        ],
      },
      types: { "Order.Place": { description: "Places an order.", examples: [{ customer: "Ada", quantity: 2 }] } },
    },
    { id: "stock", description: "Knows what is on the shelf.", program: script("stock"), inbound: message("command", "Stock.Reserve", true), limits: { concurrency: 16 } },
    { id: "bank", description: "Fails when it is told to.", program: script("bank"), restart, inbound: { oneOf: [message("command", "Bank.Charge", true), message("command", "Bank.Crash", true)] } },
    { id: "mailer", description: "Writes to customers.", program: script("mailer"), inbound: message("event", "Order.Placed", true) },
    { id: "hostile", description: "<b onmouseover=alert(1)>Bold</b> \u001b[31m", program: script("hostile"), inbound: message("query", "Hostile.Ask", true) },
  ];
  const guest = process.env.MAINSPRING_GUESTS && join(process.env.MAINSPRING_GUESTS, "capability.wasm");
  if (guest && existsSync(guest)) found.push({ id: "guest", description: "A guest in a sandbox.", program: { wasm: guest }, inbound: { oneOf: [message("query", "Guest.Echo", true)] } });
  return found;
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export class Daemon {
  static async start({ capabilities = true, journal = true } = {}) {
    const daemon = new Daemon();
    daemon.folder = mkdtempSync(join(tmpdir(), "console-test-"));
    daemon.port = await freePort();
    mkdirSync(join(daemon.folder, "journal"), { mode: 0o700 });
    const lines = [
      ...(capabilities ? ['manifests = ["*.json"]'] : []),
      ...(journal ? ["[journal]", `folder = ${JSON.stringify(join(daemon.folder, "journal"))}`] : []),
      "[limits]", 'history_data_bytes_max = "4MiB"',
      "[[listen]]", `unix = ${JSON.stringify(daemon.socket)}`,
      "[[listen]]", `http = "127.0.0.1:${daemon.port}"`, `tokens = [{ name = "guest", token = "${GUEST_TOKEN}", allow = ["Order.*"] }]`,
    ];
    writeFileSync(join(daemon.folder, "mainspring.toml"), `${lines.join("\n")}\n`);
    if (capabilities) for (const manifest of manifests()) writeFileSync(join(daemon.folder, `${manifest.id}.json`), JSON.stringify(manifest));
    await daemon.up();
    return daemon;
  }

  get socket() {
    return join(this.folder, "socket");
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  async up() {
    this.child = spawn(program, ["up", "--json", "--config", join(this.folder, "mainspring.toml")], { cwd: this.folder, stdio: ["ignore", "pipe", "pipe"] });
    this.log = "";
    this.child.stderr.on("data", (text) => (this.log += text));
    this.ended = new Promise((resolve) => this.child.on("exit", resolve));
    await new Promise((resolve, reject) => {
      this.child.stdout.once("data", resolve);
      this.child.once("exit", (code) => reject(new Error(`the daemon ended with ${code}\n${this.log}`)));
    });
  }

  async down() {
    this.child.kill("SIGTERM");
    await this.ended;
  }

  async end() {
    if (this.child.exitCode === null) await this.down();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** A command of the command line; what it prints. */
  async command(...words) {
    const { stdout } = await run(program, [...words, "--socket", this.socket], { cwd: this.folder });
    return stdout;
  }

  /** The address that opens the console. */
  async console() {
    return (await this.command("console", "--print")).trim();
  }

  async query(type, data = {}) {
    return JSON.parse(await this.command("query", type, JSON.stringify(data)));
  }

  async send(type, data = {}) {
    return JSON.parse(await this.command("send", type, JSON.stringify(data)));
  }

  /** Many messages on one connection, without waiting for each; `lines` are [kind, type, data]. */
  async pipe(lines) {
    const child = spawn(program, ["pipe", "--socket", this.socket], { stdio: ["pipe", "ignore", "inherit"] });
    for (const [kind, type, data] of lines) child.stdin.write(`${JSON.stringify({ kind, type, data })}\n`);
    child.stdin.end();
    await new Promise((resolve) => child.on("exit", resolve));
  }

  /** Some traffic, every 200 ms, until the returned function is called. */
  traffic() {
    let isOn = true;
    const make = async () => {
      while (isOn) {
        const orders = Array.from({ length: 6 }, (_, at) => ["command", "Order.Place", { customer: `Customer ${at}`, quantity: at + 1 }]);
        await this.pipe([...orders, ["query", "Order.Count", null], ["command", "Bank.Charge", { amount: 3 }]]);
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    };
    const done = make();
    return async () => {
      isOn = false;
      await done;
    };
  }

  read(name) {
    return readFileSync(join(this.folder, name), "utf8");
  }
}
