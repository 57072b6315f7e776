import { isType } from "../message/message.js";
import { CapabilityCore } from "./core.js";
import { makeManifest } from "./manifest.js";
/** A capability: handlers of commands, queries and events. Made by `capability`. */
export class Capability {
    options;
    #registrations = [];
    #core;
    constructor(options) {
        if (typeof options.id !== "string" || options.id === "")
            throw new TypeError("a capability needs an id");
        this.options = options;
    }
    command(type, ...rest) {
        return this.#register("command", type, rest);
    }
    query(type, ...rest) {
        return this.#register("query", type, rest);
    }
    on(type, ...rest) {
        return this.#register("event", type, rest);
    }
    /**
     * Emits an event that no message caused: a sensor, a clock. Needs `uncaused: true`, and that it
     * runs.
     */
    emit(type, data) {
        if (this.#core === undefined)
            throw new Error(`capability ${this.options.id} does not run: nobody would hear ${type}`);
        return this.#core.emit(type, data, undefined);
    }
    /** Its manifest, made from what was declared: what `--manifest` prints. */
    manifest() {
        return makeManifest(this.options, this.#registrations);
    }
    /**
     * Serves the daemon by standard input and output, until the input ends. With `--manifest` or
     * `--schema` as the first argument of the program it prints that instead.
     */
    async run(options = {}) {
        const { runCapability } = await import("./run.js");
        return runCapability(this, options);
    }
    /**
     * The same, if this file is the program and not imported by another (its test, say).
     *
     * @example
     * await app.runIfMain(import.meta);
     */
    async runIfMain(meta, options = {}) {
        const { isMain } = await import("./run.js");
        if (isMain(meta))
            await this.run(options);
    }
    /** The same without any input or output, for tests and other transports. */
    start(outlets) {
        this.#core = new CapabilityCore(this.options, this.#registrations, outlets);
        return this.#core;
    }
    /** The kinds and types that it handles. */
    get handles() {
        return this.#registrations.map(({ kind, type }) => ({ kind, type }));
    }
    #register(kind, type, rest) {
        const [spec, handler] = rest.length === 1 ? [{}, rest[0]] : rest;
        const what = `${kind} ${type}`;
        if (!isType(type))
            throw new TypeError(`${what}: a type has two or more names with a capital letter, joined by dots`);
        if (typeof handler !== "function")
            throw new TypeError(`${what}: the handler is no function`);
        if (this.#registrations.some((each) => each.kind === kind && each.type === type))
            throw new TypeError(`${what} has a handler already`);
        const { input, output, description, examples, hints } = spec;
        this.#registrations.push({
            kind,
            type,
            input,
            output,
            description,
            examples,
            hints,
            handler: handler,
        });
        return this;
    }
}
/**
 * Begins a capability.
 *
 * @example
 * await capability({ id: "greeter" }) .query("App.Greet", { input: z.object({ name: z.string() })
 *   }, ({ data }) => ({ text: `Hello, ${data.name}!` })) .run();
 */
export function capability(options) {
    return new Capability(options);
}
