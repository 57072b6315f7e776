/** The connection of a client: a Unix socket or TCP, made again when it is lost. */
import { lookup } from "node:dns/promises";
import { createConnection, isIP } from "node:net";
import { CountedWire } from "../core/wire.js";
import { ConnectError, RequestError } from "../errors.js";
import { LineSplitter } from "../message/lines.js";
import { checkOwner, showAddress } from "./find.js";
const WAIT_MS = 1000;
const RETRY_MS = 50;
/** How long whoever listens may take to answer the first question. */
const ADMISSION_MS = 10_000;
const PAUSE_FIRST_MS = 50;
const PAUSE_LONGEST_MS = 2000;
/** How long the end of a connection may take. */
const CLOSE_MS = 1000;
export class Link {
    #core;
    #address;
    #options;
    #socket;
    #isClosing = false;
    #attempts = 0;
    #stopPause;
    constructor(core, address, options) {
        this.#core = core;
        this.#address = address;
        this.#options = options;
    }
    /** The first connection: resolves when the daemon answers. */
    async start() {
        const clock = this.#core.clock;
        const until = clock.now() + (this.#options.wait ?? WAIT_MS);
        for (;;) {
            try {
                await this.#open();
                return;
            }
            catch (error) {
                const isAbsent = ["ENOENT", "ECONNREFUSED"].includes(error.code ?? "");
                if (!isAbsent || clock.now() >= until)
                    throw this.#explain(error);
            }
            await new Promise((done) => void clock.after(RETRY_MS, done, true));
        }
    }
    /** Gives a connection up that does not answer. */
    drop() {
        this.#socket?.destroy(new Error("the daemon does not answer"));
    }
    /** Ends the connection; what was handed over is still written. */
    async close() {
        this.#isClosing = true;
        this.#stopPause?.();
        const socket = this.#socket;
        if (socket === undefined || socket.destroyed)
            return;
        await new Promise((done) => {
            const stop = this.#core.clock.after(CLOSE_MS, () => socket.destroy(), true);
            socket.once("close", () => {
                stop();
                done();
            });
            socket.end(() => socket.destroy());
        });
    }
    async #open() {
        const socket = await this.#dial();
        const greeting = "unix" in this.#address ? "" : JSON.stringify({ token: this.#address.token });
        this.#socket = socket;
        this.#read(socket);
        const wire = new CountedWire((text, done) => socket.write(text, done));
        socket.once("close", () => wire.close());
        try {
            await this.#core.open(wire, greeting);
            await this.#core.ask("query", "Syscall.Ping", null, { timeout: ADMISSION_MS });
        }
        catch (error) {
            // Whoever refuses a ping, for want of rights, is a daemon all the same.
            if (error instanceof RequestError && this.#core.refusal === undefined && !this.#core.isClosed)
                return;
            socket.destroy();
            throw this.#core.refusal ?? error;
        }
        this.#attempts = 0;
    }
    async #dial() {
        const address = this.#address;
        if ("unix" in address) {
            const socket = await connected({ path: address.unix });
            try {
                checkOwner(address.unix);
            }
            catch (error) {
                socket.destroy();
                throw error;
            }
            return socket;
        }
        const { port } = address;
        let reason;
        for (const host of await loopback(address.host)) {
            try {
                const socket = await connected({ host, port });
                socket.setNoDelay(true);
                return socket;
            }
            catch (error) {
                reason = error;
            }
        }
        throw reason;
    }
    #read(socket) {
        const lines = new LineSplitter();
        let why;
        socket.setEncoding("utf8");
        socket.on("data", (text) => {
            try {
                lines.push(text, this.#core.receive);
            }
            catch (error) {
                why = error.message;
                socket.destroy();
            }
        });
        socket.on("error", (error) => {
            why ??= error.message;
        });
        // The daemon has nothing more to say: whatever is unanswered stays so.
        socket.on("end", () => socket.destroy());
        socket.on("close", () => this.#ended(socket, why ?? "the daemon closed the connection"));
    }
    #ended(socket, why) {
        if (this.#socket !== socket)
            return;
        this.#socket = undefined;
        const { refusal } = this.#core;
        const reason = refusal?.message ?? why;
        this.#core.lost(reason);
        if (this.#isClosing || this.#core.isClosed)
            return;
        this.#options.onDisconnect?.(reason);
        const isRefused = refusal?.cause?.code === 403;
        if (isRefused || this.#options.reconnect === false)
            this.#core.close(reason, isRefused ? refusal : undefined);
        else
            this.#pause();
    }
    #pause() {
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
    async #again() {
        if (this.#isClosing || this.#core.isClosed)
            return;
        try {
            await this.#open();
            if (!this.#isClosing)
                this.#options.onReconnect?.();
        }
        catch {
            // A connection that was made and lost is seen to where it ends.
            if (this.#socket === undefined && this.#stopPause === undefined && !this.#isClosing && !this.#core.isClosed)
                this.#pause();
        }
    }
    #explain(error) {
        if (error instanceof ConnectError)
            return error;
        const { code, message } = error;
        const where = showAddress(this.#address);
        if (code === "EACCES")
            return new ConnectError(`permission denied to connect to ${where}: it belongs to another user`, error);
        if (typeof code === "string")
            return new ConnectError(`no daemon listens at ${where} (${message}); start one with \`mainspring up\``, error);
        return new ConnectError(`what listens at ${where} does not answer like a daemon: ${message}`, error);
    }
}
function connected(where) {
    return new Promise((resolve, reject) => {
        const socket = createConnection(where);
        const timer = setTimeout(() => socket.destroy(Object.assign(new Error("it does not accept"), { code: "ETIMEDOUT" })), ADMISSION_MS);
        const failed = (error) => {
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
async function loopback(host) {
    const addresses = isIP(host) !== 0 ? [host] : (await lookup(host, { all: true })).map((found) => found.address);
    if (addresses.length === 0 || !addresses.every((address) => /^127\.|^::1$|^::ffff:127\./.test(address))) {
        throw new ConnectError(`${host} is not an address of loopback, and the token would travel unencrypted; forward a port, as with \`ssh -L\``);
    }
    return addresses;
}
