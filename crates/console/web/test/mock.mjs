// A daemon that is none: speaks the HTTP interface as far as the page uses it, in states that a
// real one is seldom in. Tests of what the page does with sick, hostile and very busy daemons use
// it; everything else is tested at the real one.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const assets = join(dirname(fileURLToPath(import.meta.url)), "../../assets");
const MEDIA = { "index.html": "text/html; charset=utf-8", "console.js": "text/javascript; charset=utf-8", "console.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml" };
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** A name that is far too long. */
export const MEGABYTES = `<b>${"x".repeat(2 << 20)}`;
/** Markup, escape codes, direction marks, for every place that a capability can write to. */
export const HOSTILE = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\u001b[31mred\u001b[0m\u202Egnp.exe\u0000`;

const schema = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required, additionalProperties: false });
const CAPABILITIES = [
  { id: "orders", description: "Takes orders and sees them through.", handles: [["command", "Order.Place"], ["query", "Order.Find"]], subscribes: ["Payment.*"] },
  { id: "payments", description: "Charges cards through the bank.", handles: [["command", "Payment.Charge"]], subscribes: [] },
  { id: "stock", description: "Knows what is on the shelf.", handles: [["query", "Stock.Level"], ["command", "Stock.Reserve"]], subscribes: ["Order.Cancelled"] },
  { id: "mailer", description: "Writes to customers.", handles: [["command", "Mail.Send"]], subscribes: ["Order.*"] },
  { id: "pricing", description: "Prices as WebAssembly, sandboxed.", handles: [["query", "Price.Of"]], subscribes: [] },
  { id: "memory", description: "Keeps values by key.", handles: [["query", "Memory.Get"], ["command", "Memory.Set"]], subscribes: [] },
];
const INPUTS = {
  "Order.Place": schema({ customer: { type: "string", description: "Who orders" }, items: { type: "array", items: schema({ sku: { type: "string" }, quantity: { type: "integer", minimum: 1 } }) }, express: { type: "boolean" }, note: { type: "string" } }, ["customer", "items"]),
};
/** The last one is the newest in each tenth of a second, and on top of lists. */
const FLOWS = [
  [null, "Mail.Send", "mailer", 4, []],
  ["token:web", "Stock.Level", "stock", 60, []],
  ["token:web", "Order.Find", "orders", 90, []],
  ["user:1000", "Order.Place", "orders", 40, [["Stock.Reserve", "stock"], ["Price.Of", "pricing"], ["Payment.Charge", "payments"], ["Order.Placed", null]]],
];

/** What a daemon would tell, made up as time goes. */
export class Mock {
  constructor({ mood = "busy", operator = true, token = "secret", perSecond = 200 } = {}) {
    Object.assign(this, { mood, operator, token, perSecond, startedAt: Date.now() - 3_600_000, serial: 0, actions: [], letters: [], once: new Set(), taps: new Set() });
    this.counters = { requestsAccepted: 0, eventsAccepted: 0, requestsFailed: 0, systemServed: 0, completionsServed: 0, userServed: 0 };
    this.history = [];
    this.handled = {};
    this.timers = mood === "empty" ? [] : [
      { timerId: "nightly-report", kind: "command", type: "Mail.Send", dueInMs: 3_912_000, repeat: 86_400_000, left: null, fired: 41, missed: 0, peer: "user:1000" },
      { timerId: "stock-sync", kind: "query", type: "Stock.Level", dueInMs: 7_400, repeat: 10_000, left: null, fired: 35_211, missed: mood === "sick" ? 218 : 0, peer: "capability:stock" },
      { timerId: "retry-7781", kind: "command", type: "Payment.Charge", dueInMs: 41_000, repeat: null, left: null, fired: 0, missed: 0, peer: "token:web" },
    ];
    if (mood === "hostile") {
      this.timers.push({ ...this.timers[0], timerId: MEGABYTES, type: HOSTILE, kind: HOSTILE, peer: MEGABYTES });
      this.letters.push({ number: 1, timestamp: Date.now(), reason: MEGABYTES, attempts: 1, kind: HOSTILE, type: MEGABYTES, id: HOSTILE, capabilityId: MEGABYTES });
    }
    if (mood === "sick")
      for (let number = 1; number <= 137; number++)
        this.letters.push({ number, timestamp: Date.now() - number * 61_000, reason: number % 3 ? "payments crashed while it had the request: the bank closed the connection" : "no handler for Invoice.Send", attempts: number % 3 ? 3 : 1, kind: "command", type: number % 3 ? "Payment.Charge" : "Invoice.Send", id: `dead-${number}`, capabilityId: number % 3 ? "payments" : null });
  }

  async listen() {
    this.server = createServer((request, response) => void this.serve(request, response).catch((error) => response.destroy(error)));
    await new Promise((resolve) => this.server.listen(this.port ?? 0, "127.0.0.1", resolve));
    this.port = this.server.address().port;
    this.ticker = setInterval(() => this.tick(), 100);
    return this;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  async close() {
    clearInterval(this.ticker);
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** Makes a tenth of a second of traffic. */
  tick() {
    if (this.mood === "empty") return;
    const records = [];
    const share = this.perSecond / 200 / 10;
    for (const [peer, type, to, weight, caused] of FLOWS) {
      let amount = weight * share * (0.6 + Math.random() * 0.8);
      amount = Math.floor(amount) + (Math.random() < amount % 1 ? 1 : 0);
      for (let at = 0; at < amount; at++) {
        const root = this.record(peer === null ? { loop: true } : { connection: 7, peer }, type, to, null);
        records.push(root);
        let offset = 400;
        for (const [childType, childTo] of caused) {
          const child = this.record({ capability: to }, childType, childTo, root);
          child.offsetUs = offset;
          offset += (child.tookUs ?? 0) + 150;
          records.push(child);
        }
        if (caused.length > 0) root.tookUs = offset + 300;
      }
    }
    this.history.push(...records);
    this.history.splice(0, Math.max(0, this.history.length - 4000));
    for (const tap of this.taps) tap(records);
  }

  record(from, type, to, cause) {
    const kind = to === null ? "event" : /Find|Level|Of|Get$/.test(type) ? "query" : "command";
    const id = `m-${(this.serial += 1).toString(36)}-${this.startedAt.toString(36)}`;
    const isBad = (this.mood === "sick" && to === "payments") || Math.random() < 0.002;
    this.counters[kind === "event" ? "eventsAccepted" : "requestsAccepted"] += 1;
    this.counters.userServed += 1;
    if (this.mood === "hostile" && this.serial % 400 === 1) return { at: Date.now(), kind: HOSTILE, type: MEGABYTES, id, causation: HOSTILE, correlation: HOSTILE, from: { peer: HOSTILE }, to: { capability: HOSTILE }, data: { [HOSTILE]: HOSTILE }, outcome: { kind: "error", id: `${id}-r`, code: 502, data: HOSTILE } };
    if (to !== null) this.handled[to] = (this.handled[to] ?? 0) + 1;
    const record = { at: Date.now(), kind, type, id, causation: cause?.id ?? null, correlation: cause?.correlation ?? cause?.id ?? null, from, to: to === null ? { capabilities: 1, clients: 1 } : { capability: to }, data: { customer: "ada@example.org", items: [{ sku: "spring-7", quantity: 2 }], total: 41.5 } };
    if (kind === "event") return record;
    if (isBad) this.counters.requestsFailed += 1;
    this.counters.completionsServed += 1;
    record.waitedUs = Math.round(20 + Math.random() * (to === "payments" ? 900 : 60));
    record.tookUs = record.waitedUs + Math.round(80 + Math.random() * (to === "payments" ? 4200 : 500));
    record.attempts = isBad ? 3 : 1;
    record.outcome = isBad ? { kind: "error", id: `${id}-r`, code: 502, data: { code: 502, message: "payments crashed: the bank closed the connection" } } : { kind: "reply", id: `${id}-r`, data: { ok: true, number: this.serial } };
    return record;
  }

  actors() {
    if (this.mood === "empty") return [];
    const list = CAPABILITIES.map(({ id }, at) => {
      const sick = this.mood === "sick" && id === "payments";
      const unwell = this.mood === "sick" && id === "mailer";
      const program = id === "pricing" ? "guest" : id === "memory" ? "native" : "process";
      return {
        capabilityId: id, state: sick ? "unhealthy" : unwell ? "backoff" : "up", incarnation: sick ? 14 : 1, mailbox: sick ? 212 : 0, mailboxBytes: sick ? 91_000 : 0, inFlight: at % 3, overdue: unwell ? 2 : 0, blocked: false,
        handled: this.handled[id] ?? 0, faults: sick ? 37 : 0, restartsInWindow: sick ? 5 : 0, sinceMs: 3_000_000, startedAt: this.startedAt, probeInMs: sick ? 23_000 : null, program,
        latencyNs: sick ? null : { requests: 900, mean: 310_000, p50: 240_000 + at * 31_000, p99: 900_000 + at * 420_000, max: 9_000_000 },
        lastFault: sick ? { at: Date.now() - 41_000, message: "ended with status 1", words: ["connecting to bank.example:443", "TLS handshake failed: connection reset by peer", "giving up"] } : null,
        ...(program === "process" ? { pid: 4000 + at, cpuMs: Math.round((Date.now() - this.startedAt) / (80 + at * 10)), memoryBytes: 21_000_000 + at * 3_000_000 } : {}), ...(program === "guest" ? { memoryBytes: 1_900_000, cpuMs: Math.round((Date.now() - this.startedAt) / 900) } : {}),
      };
    });
    if (this.mood === "hostile")
      for (const name of [HOSTILE, MEGABYTES]) list.push({ ...list[0], capabilityId: name, state: name === HOSTILE ? "unhealthy" : name, program: name, lastFault: { at: Date.now(), message: name.repeat(2), words: [name] } });
    return list;
  }

  stats() {
    const isEmpty = this.mood === "empty";
    const isSick = this.mood === "sick";
    return {
      counters: this.counters,
      gauges: { requests: 3, systemLane: 0, completionsLane: isSick ? 40 : 0, userLane: isEmpty ? 0 : isSick ? 5200 : 3, inFlight: isEmpty ? 0 : 4, mailboxes: isSick ? 212 : 0, overdue: isSick ? 2 : 0, deadLetters: this.letters.length, schedules: this.timers.length, connections: 3, memoryBytes: 1_200_000, memoryBytesMax: 256 << 20 },
      latencyNs: isEmpty ? null : { requests: 1000, mean: 280_000, p50: 210_000 + Math.random() * 40_000, p99: (isSick ? 180_000_000 : 2_100_000) + Math.random() * 600_000, max: 9_000_000 },
      floors: {
        daemon: { version: "0.1.0", pid: 3131, startedAt: this.startedAt, uptimeMs: Date.now() - this.startedAt, configuration: "/srv/shop/mainspring.toml", listeners: [], descriptors: 41, descriptorsMax: 1024, memoryBytes: 31_000_000 + Math.random() * 400_000, cpuMs: (Date.now() - this.startedAt) / 40 },
        loop: { turns: this.serial, wakeups: this.serial, callbacks: this.serial, busy: isEmpty ? 0.001 : isSick ? 0.71 + Math.random() * 0.1 : 0.06 + Math.random() * 0.02, lagNs: { last: isSick ? 61_000_000 : 38_000, max: 900_000 }, slowestNs: 800_000, slowest: "clients" },
        clients: {},
        actors: isEmpty ? {} : { pricing: { kind: "guest", phase: "waiting", wakeups: this.handled.pricing ?? 0, polls: (this.handled.pricing ?? 0) + 3, emptyPolls: 2, zeroTimeoutPolls: 0, agains: isSick ? 91_000 : 12, preemptions: 0, memoryBytes: 1_900_000, handles: 3, refused: {} } },
        ...(isEmpty ? {} : { journal: { folder: this.mood === "hostile" ? MEGABYTES : "/srv/shop/journal", bytes: 181_403_648, segments: 3, facts: this.serial * 2, flushes: Math.round(this.serial / 7), flushMeanUs: 810, flushMaxUs: 9100, unflushedBytes: 0, held: 0, snapshots: 2, full: false, failed: null } }),
      },
    };
  }

  trace(data) {
    const wanted = data.latest !== undefined ? this.history.filter((node) => node.causation === null && (!data.failed || node.outcome?.kind === "error")).slice(-data.latest).reverse() : this.family(data);
    const startedAt = Math.min(...wanted.map((node) => node.at));
    const nodes = wanted.map(({ at, offsetUs, ...node }) => ({ ...node, atUs: data.latest !== undefined ? (at - startedAt) * 1000 : (offsetUs ?? 0), messages: 1 + this.history.filter((other) => other.correlation === node.id).length }));
    return { startedAt: Number.isFinite(startedAt) ? startedAt : 0, nodes, leftOut: 0 };
  }

  family({ id, correlation }) {
    const node = this.history.find((one) => one.id === id);
    const root = correlation ?? node?.correlation ?? id;
    return this.history.filter((one) => one.id === root || one.correlation === root || one.id === id);
  }

  describe(data) {
    if (data.type === undefined)
      return { capabilities: this.mood === "empty" ? [] : [...CAPABILITIES, ...(this.mood === "hostile" ? [{ id: HOSTILE, description: MEGABYTES, handles: [[HOSTILE, MEGABYTES]], subscribes: [MEGABYTES] }] : [])].map((one) => ({ ...one, handles: one.handles.map(([kind, type]) => ({ kind, type })) })), builtins: [{ type: "Syscall.Ping", kinds: ["query"], description: "Replies with the data of the request." }, { type: "Sys.Stats", kinds: ["query"], description: "Counters and gauges." }] };
    const owner = CAPABILITIES.find((one) => one.handles.some(([, type]) => type === data.type));
    const kind = owner?.handles.find(([, type]) => type === data.type)?.[0] ?? "query";
    return { name: data.type, handlers: [{ name: data.type, kind, description: owner?.description ?? "Replies with the data of the request.", capability: owner?.id, hints: { readOnly: kind === "query", destructive: false, idempotent: kind === "query", openWorld: true }, input: INPUTS[data.type] ?? true, output: null }] };
  }

  /** The data of a reply, or an error. */
  answer(kind, type, data) {
    const operators = ["Sys.Tap", "Sys.Logs", "Sys.DeadLetters", "Sys.RestartActor", "Sys.ResetActor"];
    if (operators.includes(type) && !this.operator) return { error: { code: 403, message: `${type} needs an operator` } };
    if (kind === "command") this.actions.push([type, data]);
    switch (type) {
      case "Sys.Stats": return this.stats();
      case "Sys.Actors": return { actors: this.actors() };
      case "Sys.Restrict": return { peer: this.operator ? "user:1000" : "token:guest", allow: ["*"], operator: this.operator };
      case "Syscall.Describe": return this.describe(data);
      case "Sys.Trace": return this.trace(data);
      case "Timer.List": return { timers: this.timers };
      case "Sys.Logs": return { lines: data.after ? [] : [{ number: 1, at: Date.now(), capabilityId: data.capability, incarnation: 1, text: this.mood === "hostile" ? HOSTILE : "listening for orders" }, { number: 2, at: Date.now(), capabilityId: data.capability, incarnation: 1, text: "connected to the warehouse" }], forgotten: 0 };
      case "Sys.DeadLetters": return this.deadLetters(data);
      case "Order.Place": if (data?.customer === "") return { error: { code: 422, message: 'data/customer: "" is shorter than 2 characters' } }; return { number: 7 };
      default: return { ok: true };
    }
  }

  deadLetters(data) {
    const fits = (letter) => (data.reason === undefined || letter.reason.toLowerCase().includes(data.reason.toLowerCase())) && (data.capability === undefined || letter.capabilityId === data.capability);
    if (data.action === "list") return { letters: this.letters.filter(fits).slice(0, data.limit), total: this.letters.length, dropped: 0 };
    if (data.action === "show") return { ...this.letters.find((letter) => letter.number === data.number), message: { data: { amount: 41.5, card: "…4242" } } };
    const gone = this.letters.filter((letter) => (data.number === undefined ? fits(letter) : letter.number === data.number));
    this.letters = this.letters.filter((letter) => !gone.includes(letter));
    return data.action === "drop" ? { dropped: gone.length } : data.number === undefined ? { requeued: gone, refused: [], left: 0 } : { requeued: data.number, id: "again" };
  }

  async serve(request, response) {
    const url = new URL(request.url, this.url);
    const name = url.pathname === "/" ? "index.html" : url.pathname.slice(1);
    if (MEDIA[name]) return void response.writeHead(200, { "content-type": MEDIA[name], "content-security-policy": POLICY, "cache-control": "no-cache" }).end(readFileSync(join(assets, name)));
    let body = "";
    for await (const piece of request) body += piece;
    const problem = (status, detail) => response.writeHead(status, { "content-type": "application/problem+json" }).end(JSON.stringify({ type: "about:blank", status, detail }));
    if (url.pathname === "/v1/console/session") {
      return this.once.delete(JSON.parse(body).token) ? response.end(JSON.stringify({ session: this.token })) : problem(401, "the token is not known here");
    }
    if (request.headers.authorization !== `Bearer ${this.token}`) return problem(401, "the token is not known here");
    if (url.pathname === "/v1/messages") {
      const lines = body.trim().split("\n").map((line) => JSON.parse(line));
      const answers = lines.map(({ kind, type, data, metadata }) => {
        const told = this.answer(kind, type, data);
        return JSON.stringify({ kind: told.error ? "error" : "reply", type: told.error ? "Sys.ForbiddenError" : type, data: told.error ?? told, metadata: { causation: metadata.id } });
      });
      return response.writeHead(200, { "content-type": "application/x-ndjson" }).end(`${answers.join("\n")}\n`);
    }
    if (url.pathname === "/v1/events") return this.tap(request, response, JSON.parse(url.searchParams.get("tap") ?? "{}"), problem);
    const [, kind, type] = /^\/v1\/(commands|queries|events)\/(.+)$/.exec(url.pathname) ?? [];
    if (!kind) return problem(404, "there is nothing here");
    const told = this.answer({ commands: "command", queries: "query", events: "event" }[kind], decodeURIComponent(type), body === "" ? null : JSON.parse(body));
    if (told.error) return problem(told.error.code, told.error.message);
    response.writeHead(200, { "content-type": "application/json", "x-message-id": this.history.findLast((node) => node.causation === null)?.id ?? "x" }).end(JSON.stringify(told));
  }

  tap(request, response, filter, problem) {
    if (!this.operator) return problem(403, "Sys.Tap needs an operator");
    response.writeHead(200, { "content-type": "application/x-ndjson" });
    const send = (records, skipped = 0) => response.write(`${JSON.stringify({ kind: "event", type: "Sys.Tapped", data: { records, skipped }, metadata: {} })}\n`);
    const tell = (records) => {
      const found = records.filter((record) => (!filter.failed || record.outcome?.kind === "error") && (!filter.kinds || filter.kinds.includes(record.kind)) && (!filter.types || filter.types.some((type) => record.type === type || (type.endsWith(".*") && record.type.startsWith(type.slice(0, -1))))));
      if (found.length > 0) send(found);
    };
    this.send = send;
    this.taps.add(tell);
    response.on("close", () => this.taps.delete(tell));
    response.flushHeaders();
  }
}
