/** Reads TOML 1.0, for `mainspring.toml`. Dates are left as text: nothing here has one. */
type Table = {
    [key: string]: unknown;
};
/**
 * Reads a document.
 *
 * @throws {SyntaxError} It is no TOML; the message has the line.
 */
export declare function parseToml(text: string): Table;
export {};
