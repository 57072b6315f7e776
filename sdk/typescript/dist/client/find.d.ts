/** A listener of a daemon. */
export type Address = {
    unix: string;
} | {
    host: string;
    port: number;
    token: string;
};
/** What the program says about where the daemon is. */
export interface Place {
    /** The path of a Unix socket. */
    socket?: string | undefined;
    /** A host and port of this machine, such as `127.0.0.1:7700`. */
    tcp?: string | undefined;
    /** The token for TCP. */
    token?: string | undefined;
    /** A file with the token, which only its owner may read. */
    tokenFile?: string | undefined;
}
/**
 * The daemon's listener: as the program says, or else by `MAINSPRING_TCP` or `MAINSPRING_SOCKET`,
 * by `mainspring.toml` in this folder or the nearest above it, or the user's own socket. Nothing
 * above the home folder is looked at from within it.
 *
 * @throws {ConnectError} There is no token for TCP, or it cannot be read; `mainspring.toml` has a fault, or is above
 * this folder and belongs to another user.
 */
export declare function findDaemon(place?: Place): Address;
/** How an address is told to people: without its token. */
export declare function showAddress(address: Address): string;
/**
 * Makes sure that nobody else decides where a Unix socket leads: the socket, its folder and a link
 * in its place are this user's or the system's. A daemon serves its own user alone, so whoever else
 * listens could only want to hear what we say.
 */
export declare function checkOwner(path: string): void;
