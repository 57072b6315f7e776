// A real daemon in a folder of its own, with capabilities that do what tests need, and a client
// that makes traffic.
import { spawn } from "node:child_process";
import { connect, createServer } from "node:net";
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
export const SHOP_TOKEN = "a-token-of-the-shop";

const message = (kind, type, data = true) => ({ type: "object", properties: { kind: { const: kind }, type: { const: type }, data } });
const object = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required, additionalProperties: false });

function manifests() {
  const script = (...words) => ({ process: [process.execPath, join(here, "capability.mjs"), ...words] });
  const restart = { backoff_ms: "100ms", max_restarts: 2, probe_ms: "60s" };
  const item = object({ sku: { type: "string", minLength: 3, description: "What is ordered" }, quantity: { type: "integer", minimum: 1, maximum: 99 } });
  const found = [
    {
      id: "orders", description: "Takes orders and sees them through.", program: script("orders"), restart, limits: { concurrency: 16 },
      inbound: {
        $defs: { item },
        oneOf: [
          message("command", "Order.Basket", object({ items: { type: "array", items: { $ref: "#/$defs/item" } }, gift: { type: "boolean" } }, ["items"])),
          message("command", "Order.Place", object({
            customer: { type: "string", minLength: 2, description: "Who orders" }, quantity: { type: "integer", minimum: 1 },
            size: { enum: ["small", "large"] }, note: { type: "string" },
          }, ["customer", "quantity"])),
          message("query", "Order.Count", true),
        ],
      },
      types: { "Order.Place": { description: "Places an order.", examples: [{ customer: "Ada", quantity: 2 }] } },
    },
    { id: "stock", description: "Knows what is on the shelf.", program: script("stock"), inbound: message("command", "Stock.Reserve", true) },
    { id: "bank", description: "Charges cards.", program: script("bank"), restart, inbound: { oneOf: [message("command", "Bank.Charge", true), message("command", "Bank.Crash", true)] } },
    { id: "mailer", description: "Writes to customers.", program: script("mailer"), inbound: message("event", "Order.Placed", true) },
    { id: "slow", description: "Never answers.", program: script("slow"), cancel: true, inbound: message("query", "Slow.Wait", true) },
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
  /**
   * `capabilities`: all, none, or those with these ids. Nothing else is set: it is a daemon as it
   * is shipped.
   */
  static async start({ capabilities = true, journal = true, native = [] } = {}) {
    const daemon = new Daemon();
    daemon.folder = mkdtempSync(join(tmpdir(), "console-test-"));
    daemon.port = await freePort();
    mkdirSync(join(daemon.folder, "journal"), { mode: 0o700 });
    const lines = [
      ...(native.length > 0 ? [`native = ${JSON.stringify(native)}`] : []),
      ...(capabilities ? ['manifests = ["*.json"]'] : []),
      ...(journal ? ["[journal]", `folder = ${JSON.stringify(join(daemon.folder, "journal"))}`] : []),
      "[[listen]]", `unix = ${JSON.stringify(daemon.socket)}`,
      "[[listen]]", `http = "127.0.0.1:${daemon.port}"`, `tokens = [{ name = "guest", token = "${GUEST_TOKEN}", allow = ["Order.*"] }, { name = "shop", token = "${SHOP_TOKEN}" }]`,
    ];
    writeFileSync(join(daemon.folder, "mainspring.toml"), `${lines.join("\n")}\n`);
    for (const manifest of manifests().filter(({ id }) => capabilities === true || (capabilities && capabilities.includes(id)))) writeFileSync(join(daemon.folder, `${manifest.id}.json`), JSON.stringify(manifest));
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
    const child = spawn(program, ["pipe", "--socket", this.socket], { stdio: ["pipe", "ignore", "ignore"] });
    for (const [kind, type, data] of lines) child.stdin.write(`${JSON.stringify({ kind, type, data })}\n`);
    child.stdin.end();
    await new Promise((resolve) => child.on("exit", resolve));
  }

  /**
   * Lines of the protocol as they are, on a connection of their own, until `answers` lines came
   * back.
   */
  async raw(lines, answers = lines.length) {
    const socket = connect(this.socket);
    socket.write(`${lines.map((line) => JSON.stringify(line)).join("\n")}\n`);
    let text = "";
    for await (const piece of socket) {
      text += piece;
      if (text.split("\n").length > answers) break;
    }
    socket.destroy();
    return text.trim().split("\n").map((line) => JSON.parse(line));
  }

  /** A message by HTTP, as a client with a token sends it. */
  async post(path, data, token = SHOP_TOKEN) {
    const response = await fetch(`${this.url}/v1/${path}`, { method: "POST", body: JSON.stringify(data), headers: { authorization: `Bearer ${token}`, "content-type": "application/json" } });
    return await response.text();
  }

  /** How often the daemon's own thread went to sleep: it does so after each thing that woke it. */
  sleeps() {
    return Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(readFileSync(`/proc/${this.child.pid}/task/${this.child.pid}/status`, "utf8"))[1]);
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
