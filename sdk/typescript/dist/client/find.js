/** Where the daemon is: found as the commands of `mainspring` find it. */
import { existsSync, lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import process from "node:process";
import { ConnectError } from "../errors.js";
import { parseToml } from "./toml.js";
const CONFIG_FILE = "mainspring.toml";
/** A configuration or token beyond this is none. */
const FILE_BYTES_MAX = 4 * 1024 * 1024;
const TOKEN_BYTES_MAX = 4096;
/**
 * The daemon's listener: as the program says, or else by `MAINSPRING_TCP` or `MAINSPRING_SOCKET`,
 * by `mainspring.toml` in this folder or the nearest above it, or the user's own socket. Nothing
 * above the home folder is looked at from within it.
 *
 * @throws {ConnectError} There is no token for TCP, or it cannot be read; `mainspring.toml` has a fault, or is above
 * this folder and belongs to another user.
 */
export function findDaemon(place = {}) {
    if (place.socket !== undefined)
        return { unix: place.socket };
    const tcp = place.tcp ?? variable("MAINSPRING_TCP");
    if (tcp !== undefined)
        return { ...hostAndPort(tcp), token: findToken(place, tcp) };
    if (place.token !== undefined || place.tokenFile !== undefined) {
        throw new ConnectError("a token is for `tcp` (or MAINSPRING_TCP); a Unix socket knows its clients by their user");
    }
    const socket = variable("MAINSPRING_SOCKET");
    if (socket !== undefined)
        return { unix: socket };
    return ofConfiguration() ?? { unix: defaultSocket() };
}
/** How an address is told to people: without its token. */
export function showAddress(address) {
    return "unix" in address ? address.unix : `${address.host}:${address.port}`;
}
function variable(name) {
    const value = process.env[name];
    return value === undefined || value === "" ? undefined : value;
}
function defaultSocket() {
    const runtime = variable("XDG_RUNTIME_DIR");
    const folder = runtime !== undefined && isAbsolute(runtime)
        ? join(runtime, "mainspring")
        : join(variable("TMPDIR") ?? "/tmp", `mainspring-${process.getuid?.() ?? 0}`);
    return join(folder, "mainspring.sock");
}
function hostAndPort(place) {
    const at = place.lastIndexOf(":");
    const host = place.slice(0, at).replace(/^\[(.*)\]$/, "$1");
    const port = Number(place.slice(at + 1));
    if (at <= 0 || host === "" || !/^\d+$/.test(place.slice(at + 1)) || port < 1 || port > 65_535) {
        throw new ConnectError(`${place}: expected a host and a port, such as 127.0.0.1:7700`);
    }
    return { host, port };
}
function findToken(place, tcp) {
    if (place.token !== undefined)
        return place.token;
    if (place.tokenFile !== undefined)
        return readToken(place.tokenFile);
    const token = variable("MAINSPRING_TOKEN");
    if (token !== undefined)
        return token;
    const file = variable("MAINSPRING_TOKEN_FILE");
    if (file !== undefined)
        return readToken(file);
    throw new ConnectError(`the daemon at ${tcp} wants a token: give \`token\` or \`tokenFile\`, or set MAINSPRING_TOKEN or MAINSPRING_TOKEN_FILE`);
}
function readToken(path) {
    try {
        const about = statSync(path);
        if (!about.isFile())
            throw new Error("it is no regular file");
        if ((about.mode & 0o077) !== 0)
            throw new Error(`others may read it; \`chmod 600 ${path}\``);
        if (about.size > TOKEN_BYTES_MAX)
            throw new Error(`it is longer than ${TOKEN_BYTES_MAX} bytes`);
        return readFileSync(path, "utf8").replace(/[\r\n]+$/, "");
    }
    catch (error) {
        throw new ConnectError(`the token in ${path}: ${error.message}`, error);
    }
}
/**
 * The first Unix socket of the file, or else its first TCP socket with its first token. A file with
 * a fault leads nowhere else.
 */
function ofConfiguration() {
    const path = nearestConfiguration();
    if (path === undefined)
        return undefined;
    try {
        if (statSync(path).size > FILE_BYTES_MAX)
            throw new Error(`it is longer than ${FILE_BYTES_MAX} bytes`);
        const { listen } = parseToml(readFileSync(path, "utf8"));
        if (listen === undefined)
            return undefined;
        if (!Array.isArray(listen))
            throw new Error("`listen` must be a list of tables");
        return ofListeners(listen, dirname(path));
    }
    catch (error) {
        if (error instanceof ConnectError)
            throw error;
        throw new ConnectError(`${path}: ${error.message}`, error);
    }
}
/** The file in this folder, or in the nearest one above it that has one; the home folder is the last. */
function nearestConfiguration() {
    if (existsSync(CONFIG_FILE))
        return resolve(CONFIG_FILE);
    const home = variable("HOME");
    const last = home !== undefined && existsSync(home) ? realpathSync(home) : undefined;
    for (let folder = process.cwd(); folder !== last && folder !== dirname(folder);) {
        folder = dirname(folder);
        const path = join(folder, CONFIG_FILE);
        if (existsSync(path) && statSync(path).isFile()) {
            checkOwners(folder, path);
            return path;
        }
    }
    return undefined;
}
/** Makes sure that a file above this folder is nobody else's: not its folder, the file, or a link in its place. */
function checkOwners(folder, path) {
    const user = process.geteuid?.();
    if (user === undefined)
        return;
    const trusted = [user, 0, statSync("/").uid];
    for (const about of [statSync(folder), lstatSync(path), statSync(path)]) {
        if (trusted.includes(about.uid))
            continue;
        throw new ConnectError(`${path} belongs to user ${about.uid}, or is in a folder of that user; the file of another user is read in its own folder alone`);
    }
}
function ofListeners(listeners, folder) {
    const unix = listeners.find((each) => typeof each.unix === "string")?.unix;
    if (unix !== undefined)
        return { unix: resolve(folder, unix) };
    const tcp = listeners.find((each) => typeof each.tcp === "string");
    if (tcp?.tcp === undefined)
        return undefined;
    if (tcp.tcp.endsWith(":0"))
        throw new ConnectError(`the daemon of ${CONFIG_FILE} chooses its TCP port itself: say which with \`tcp\``);
    const first = tcp.tokens?.[0];
    const token = first?.token ?? (first?.token_file === undefined ? undefined : readToken(resolve(folder, first.token_file)));
    return token === undefined ? undefined : { ...hostAndPort(tcp.tcp), token };
}
/**
 * Makes sure that nobody else decides where a Unix socket leads: the socket, its folder and a link
 * in its place are this user's or the system's. A daemon serves its own user alone, so whoever else
 * listens could only want to hear what we say.
 */
export function checkOwner(path) {
    const user = process.geteuid?.();
    if (user === undefined)
        return;
    const system = statSync("/").uid;
    const check = (place, owner, mayBeSystems) => {
        if (owner === user || (mayBeSystems && (owner === 0 || owner === system)))
            return;
        throw new ConnectError(`${place} belongs to user ${owner}, who may have led it anywhere; you are user ${user}`);
    };
    const folder = dirname(resolve(path));
    check(folder, statSync(folder).uid, true);
    const link = lstatSync(path);
    if (link.isSymbolicLink())
        check(path, link.uid, true);
    check(path, statSync(path).uid, false);
}
