/**
 * JSON whose integers are exact.
 *
 * JavaScript's own parser rounds integers beyond 2^53 in silence. Here such an integer is a
 * `bigint`, in both directions; every other number is a `number`. The search for long numbers looks
 * at every sixteenth character, so that messages without one cost next to nothing more than
 * `JSON.parse`.
 */
/**
 * Reads JSON. Integers that a `number` cannot hold exactly are `bigint`s.
 *
 * @throws {SyntaxError} The text is not JSON.
 */
export declare function parseJson(text: string): unknown;
/**
 * Writes JSON. A `bigint` is written as the integer that it is; `undefined` as a whole is `null`.
 *
 * As `JSON.stringify` does, it writes `NaN` and infinities as `null` and leaves out members that
 * are `undefined`.
 *
 * @throws {TypeError} The value contains itself, or is a function or symbol.
 */
export declare function stringifyJson(value: unknown): string;
