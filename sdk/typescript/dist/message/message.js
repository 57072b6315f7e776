const TYPE = /^[A-Z][A-Za-z0-9]*(\.[A-Z][A-Za-z0-9]*)+$/;
const TYPE_LENGTH_MAX = 256;
/** Types that were found to be right: a program uses few, and most of them often. */
const known = new Set();
const KNOWN_MAX = 4096;
/**
 * Whether a text may be the type of a message: two or more names with a capital letter, joined by
 * dots.
 */
export function isType(type) {
    if (known.has(type))
        return true;
    if (typeof type !== "string" || type.length > TYPE_LENGTH_MAX || !TYPE.test(type))
        return false;
    if (known.size < KNOWN_MAX)
        known.add(type);
    return true;
}
/** Whether a type is matched by a pattern of `watch`: a type, `Prefix.*`, or `*`. */
export function matches(pattern, type) {
    if (pattern === "*" || pattern === type)
        return true;
    return pattern.endsWith(".*") && type.startsWith(pattern.slice(0, -1));
}
