import { ClientCore } from "./core.js";
import { findDaemon } from "./find.js";
import { Link } from "./link.js";
import { Watch } from "./watch.js";
/** A connection to a daemon, which is made again when it is lost. */
export class Client {
    #core;
    #link;
    /** @internal Use `connect`. */
    constructor(core, link) {
        this.#core = core;
        this.#link = link;
    }
    /** Whether there is a connection at this moment. */
    get isConnected() {
        return this.#core.isConnected;
    }
    /** Requests under way. */
    get pending() {
        return this.#core.pending;
    }
    /**
     * Sends a command: something that is to be done. Resolves with the data of its reply.
     *
     * After a lost connection it is sent again under the same id, byte for byte: the daemon does it
     * once and gives the one answer. (A daemon that was itself started again, without a journal,
     * knows nothing of the first time: `repeat: false` is for commands that must not be done twice
     * even then.)
     *
     * @throws {RequestError} It ended in an error. Other errors of this package: there is no outcome.
     */
    async send(type, ...[data, options]) {
        return (await this.#core.request("command", type, data, options ?? {}))
            .data;
    }
    /** Sends a query: something that is to be told. Resolves with the data of its reply. */
    async query(type, ...[data, options]) {
        return (await this.#core.request("query", type, data, options ?? {}))
            .data;
    }
    /** Sends a command or query, and resolves with the whole message of its reply. */
    request(kind, type, data, options = {}) {
        return this.#core.request(kind, type, data, options);
    }
    /**
     * Sends an event. Resolves when the daemon has taken it.
     *
     * An event is never sent twice: one that a lost connection leaves in doubt is a `ClosedError`.
     */
    emit(type, data, options = {}) {
        return this.#core.emit(type, data, options);
    }
    /** Watches events of these types: exact types, `Prefix.*`, or `*`. */
    watch(types, options = {}) {
        const list = typeof types === "string" ? [types] : [...types];
        const watch = new Watch(list, options, (ended) => this.#core.removeWatch(ended));
        this.#core.addWatch(watch);
        return watch;
    }
    /**
     * Gives rights up for good: on this connection, and before anything else is said on every later
     * one. Resolves with what is left. Needs a daemon that knows `Sys.Restrict`.
     */
    restrict(rights) {
        return this.#core.restrict(rights);
    }
    /**
     * What became of a command that was sent under this id, by this process or an earlier one:
     * `state` is `waiting`, `delivered` or `ended`, and then `outcome` is the message that ended it.
     * Needs a daemon that knows `Sys.Result`.
     */
    async result(id) {
        return (await this.#core.request("query", "Sys.Result", { id }, {})).data;
    }
    /** Ends the connection. What is under way fails with a `ClosedError`. */
    async close() {
        this.#core.close("the client was closed");
        await this.#link.close();
    }
    [Symbol.asyncDispose]() {
        return this.close();
    }
}
/**
 * Connects to a daemon: as the options say, or else as the commands of `mainspring` find it.
 *
 * @throws {ConnectError} Nobody listens there, or does not let us in.
 */
export async function connect(options = {}) {
    const address = findDaemon(options);
    const core = new ClientCore({ onSilent: () => link.drop() });
    const link = new Link(core, address, options);
    try {
        await link.start();
    }
    catch (error) {
        core.close("no connection");
        await link.close();
        throw error;
    }
    return new Client(core, link);
}
