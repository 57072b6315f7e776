/**
 * JSON whose integers are exact.
 *
 * JavaScript's own parser rounds integers beyond 2^53 in silence. Here such an integer is a
 * `bigint`, in both directions; every other number is a `number`. The search for long numbers looks
 * at every sixteenth character, so that messages without one cost next to nothing more than
 * `JSON.parse`.
 */
/** Integers of fewer digits are safe. */
const DIGITS_MIN = 16;
/**
 * Stands for a `bigint` while the rest is read or written. Random, so that no data can contain it.
 */
const MARK = `\u0001big${Math.random().toString(36).slice(2)}${Math.random().toString(36).slice(2)}:`;
/** The mark as `JSON.stringify` writes it, with the number that follows. */
const WRITTEN_MARK = new RegExp(`"${JSON.stringify(MARK).slice(1, -1).replaceAll("\\", "\\\\")}(-?\\d+)"`, "g");
/** The next text or number; between two of them there is nothing that matters here. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/**
 * Reads JSON. Integers that a `number` cannot hold exactly are `bigint`s.
 *
 * @throws {SyntaxError} The text is not JSON.
 */
export function parseJson(text) {
    return hasLongNumber(text) ? parseExactly(text) : JSON.parse(text);
}
/**
 * Writes JSON. A `bigint` is written as the integer that it is; `undefined` as a whole is `null`.
 *
 * As `JSON.stringify` does, it writes `NaN` and infinities as `null` and leaves out members that
 * are `undefined`.
 *
 * @throws {TypeError} The value contains itself, or is a function or symbol.
 */
export function stringifyJson(value) {
    if (value === undefined)
        return "null";
    let text;
    try {
        text = JSON.stringify(value);
    }
    catch (error) {
        if (!(error instanceof TypeError))
            throw error;
        // Either a bigint, or something that fails once more.
        text = JSON.stringify(value, (_key, member) => (typeof member === "bigint" ? `${MARK}${member}` : member));
        text = text?.replace(WRITTEN_MARK, "$1");
    }
    if (text === undefined)
        throw new TypeError(`a ${typeof value} cannot be written as JSON`);
    return text;
}
/**
 * Whether there are so many digits in a row that a number may not be safe. A run of 16 covers one
 * of every 16 places.
 */
function hasLongNumber(text) {
    for (let at = DIGITS_MIN - 1; at < text.length; at += DIGITS_MIN) {
        if (!isDigit(text.charCodeAt(at)))
            continue;
        let first = at;
        while (first > 0 && isDigit(text.charCodeAt(first - 1)))
            first -= 1;
        let end = at + 1;
        while (end < text.length && isDigit(text.charCodeAt(end)))
            end += 1;
        if (end - first >= DIGITS_MIN)
            return true;
    }
    return false;
}
function isDigit(code) {
    return code >= 48 && code <= 57;
}
/**
 * The rare way: unsafe integers are replaced by marked texts, which are made `bigint`s once
 * everything is read.
 */
function parseExactly(text) {
    let found = false;
    const marked = text.replace(TOKEN, (token, at) => {
        const first = token.charCodeAt(0) === 45 ? 1 : 0;
        const isUnsafe = token.charCodeAt(0) !== 34 &&
            token.length - first >= DIGITS_MIN &&
            !/[.eE]/.test(token) &&
            token.charCodeAt(first) !== 48 &&
            !Number.isSafeInteger(Number(token));
        // A number cannot be a name, or stand in the middle of something: what is wrong stays as it is,
        // for JSON.parse to say.
        if (!isUnsafe || !isValue(text, at + token.length))
            return token;
        found = true;
        return JSON.stringify(MARK + token);
    });
    if (!found)
        return JSON.parse(text);
    return JSON.parse(marked, (_key, member) => typeof member === "string" && member.startsWith(MARK) ? BigInt(member.slice(MARK.length)) : member);
}
/** Whether what ends here is a value: only a comma, a bracket or the end may follow. */
function isValue(text, end) {
    let at = end;
    while (at < text.length && " \t\r\n".includes(text.charAt(at)))
        at += 1;
    return at === text.length || ",]}".includes(text.charAt(at));
}
