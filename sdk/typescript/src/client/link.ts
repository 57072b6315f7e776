/** The connection of a client: a Unix socket or TCP, made again when it is lost. */
import { lookup } from "node:dns/promises";
import { type Socket, createConnection, isIP } from "node:net";
import { CountedWire } from "../core/wire.ts";
import { ConnectError, RequestError } from "../errors.ts";
import { LineSplitter } from "../message/lines.ts";
import type { ClientCore } from "./core.ts";
import { type Address, checkOwner, showAddress } from "./find.ts";

/** How connections are made. */
export interface LinkOptions {
  /** How long a daemon is waited for that does not listen yet, in milliseconds; 1000 if absent. */
  wait?: number | undefined;
  /**
   * Whether a lost connection is made again; true if absent. Pauses grow from the first to the
   * second number, in milliseconds.
   */
  reconnect?: boolean | { first?: number; longest?: number } | undefined;
  /** Called when the connection is lost, and when there is one again. */
  onDisconnect?: ((reason: string) => void) | undefined;
  onReconnect?: (() => void) | undefined;
}

const WAIT_MS = 1000;
const RETRY_MS = 50;
/** How long whoever listens may take to answer the first question. */
const ADMISSION_MS = 10_000;
const PAUSE_FIRST_MS = 50;
const PAUSE_LONGEST_MS = 2000;
/** How long the end of a connection may take. */
const CLOSE_MS = 1000;

export class Link {
  readonly #core: ClientCore;
  readonly #address: Address;
  readonly #options: LinkOptions;
  #socket: Socket | undefined;
  #isClosing = false;
  #attempts = 0;
  #stopPause: (() => void) | undefined;

  constructor(core: ClientCore, address: Address, options: LinkOptions) {
    this.#core = core;
    this.#address = address;
    this.#options = options;
  }

  /** The first connection: resolves when the daemon answers. */
  async start(): Promise<void> {
    const clock = this.#core.clock;
    const until = clock.now() + (this.#options.wait ?? WAIT_MS);
    for (;;) {
      try {
        await this.#open();
        return;
      } catch (error) {
        const isAbsent = ["ENOENT", "ECONNREFUSED"].includes((error as { code?: string }).code ?? "");
        if (!isAbsent || clock.now() >= until) throw this.#explain(error);
      }
      await new Promise<void>((done) => void clock.after(RETRY_MS, done, true));
    }
  }

  /** Gives a connection up that does not answer. */
  drop(): void {
    this.#socket?.destroy(new Error("the daemon does not answer"));
  }

  /** Ends the connection; what was handed over is still written. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#stopPause?.();
    const socket = this.#socket;
    if (socket === undefined || socket.destroyed) return;
    await new Promise<void>((done) => {
      const stop = this.#core.clock.after(CLOSE_MS, () => socket.destroy(), true);
      socket.once("close", () => {
        stop();
        done();
      });
      socket.end(() => socket.destroy());
    });
  }

  async #open(): Promise<void> {
    const socket = await this.#dial();
    const greeting = "unix" in this.#address ? "" : JSON.stringify({ token: this.#address.token });
    this.#socket = socket;
    this.#read(socket);
    const wire = new CountedWire((text, done) => socket.write(text, done));
    socket.once("close", () => wire.close());
    try {
      await this.#core.open(wire, greeting);
      await this.#core.ask("query", "Syscall.Ping", null, { timeout: ADMISSION_MS });
    } catch (error) {
      // Whoever refuses a ping, for want of rights, is a daemon all the same.
      if (error instanceof RequestError && this.#core.refusal === undefined && !this.#core.isClosed) return;
      socket.destroy();
      throw this.#core.refusal ?? error;
    }
    this.#attempts = 0;
  }

  async #dial(): Promise<Socket> {
    const address = this.#address;
    if ("unix" in address) {
      const socket = await connected({ path: address.unix });
      try {
        checkOwner(address.unix);
      } catch (error) {
        socket.destroy();
        throw error;
      }
      return socket;
    }
    const { port } = address;
    let reason: unknown;
    for (const host of await loopback(address.host)) {
      try {
        const socket = await connected({ host, port });
        socket.setNoDelay(true);
        return socket;
      } catch (error) {
        reason = error;
      }
    }
    throw reason;
  }

  #read(socket: Socket): void {
    const lines = new LineSplitter();
    let why: string | undefined;
    socket.setEncoding("utf8");
    socket.on("data", (text) => {
      try {
        lines.push(text as unknown as string, this.#core.receive);
      } catch (error) {
        why = (error as Error).message;
        socket.destroy();
      }
    });
    socket.on("error", (error: Error) => {
      why ??= error.message;
    });
    // The daemon has nothing more to say: whatever is unanswered stays so.
    socket.on("end", () => socket.destroy());
    socket.on("close", () => this.#ended(socket, why ?? "the daemon closed the connection"));
  }

  #ended(socket: Socket, why: string): void {
    if (this.#socket !== socket) return;
    this.#socket = undefined;
    const { refusal } = this.#core;
    const reason = refusal?.message ?? why;
    this.#core.lost(reason);
    if (this.#isClosing || this.#core.isClosed) return;
    this.#options.onDisconnect?.(reason);
    const isRefused = (refusal?.cause as { code?: number } | undefined)?.code === 403;
    if (isRefused || this.#options.reconnect === false) this.#core.close(reason, isRefused ? refusal : undefined);
    else this.#pause();
  }

  #pause(): void {
    const { reconnect } = this.#options;
    const { first = PAUSE_FIRST_MS, longest = PAUSE_LONGEST_MS } = typeof reconnect === "object" ? reconnect : {};
    const pause = Math.min(longest, first * 2 ** Math.min(this.#attempts, 20));
    this.#attempts += 1;
    // Half of it by chance, so that many clients do not come at once.
    const again = () => {
      this.#stopPause = undefined;
      void this.#again();
    };
    this.#stopPause = this.#core.clock.after(pause / 2 + (Math.random() * pause) / 2, again, true);
  }

  async #again(): Promise<void> {
    if (this.#isClosing || this.#core.isClosed) return;
    try {
      await this.#open();
      if (!this.#isClosing) this.#options.onReconnect?.();
    } catch {
      // A connection that was made and lost is seen to where it ends.
      if (this.#socket === undefined && this.#stopPause === undefined && !this.#isClosing && !this.#core.isClosed)
        this.#pause();
    }
  }

  #explain(error: unknown): ConnectError {
    if (error instanceof ConnectError) return error;
    const { code, message } = error as { code?: unknown; message: string };
    const where = showAddress(this.#address);
    if (code === "EACCES")
      return new ConnectError(`permission denied to connect to ${where}: it belongs to another user`, error);
    if (typeof code === "string")
      return new ConnectError(`no daemon listens at ${where} (${message}); start one with \`mainspring up\``, error);
    return new ConnectError(`what listens at ${where} does not answer like a daemon: ${message}`, error);
  }
}

function connected(where: { path: string } | { host: string; port: number }): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(where);
    const timer = setTimeout(
      () => socket.destroy(Object.assign(new Error("it does not accept"), { code: "ETIMEDOUT" })),
      ADMISSION_MS,
    );
    const failed = (error: Error) => {
      clearTimeout(timer);
      reject(error);
    };
    socket.once("error", failed);
    socket.once("connect", () => {
      clearTimeout(timer);
      socket.off("error", failed);
      resolve(socket);
    });
  });
}

/** The addresses of a name, all of them on this machine: nothing on the way is encrypted. */
async function loopback(host: string): Promise<string[]> {
  const addresses = isIP(host) !== 0 ? [host] : (await lookup(host, { all: true })).map((found) => found.address);
  if (addresses.length === 0 || !addresses.every((address) => /^127\.|^::1$|^::ffff:127\./.test(address))) {
    throw new ConnectError(
      `${host} is not an address of loopback, and the token would travel unencrypted; forward a port, as with \`ssh -L\``,
    );
  }
  return addresses;
}
