var __rewriteRelativeImportExtension = (this && this.__rewriteRelativeImportExtension) || function (path, preserveJsx) {
    if (typeof path === "string" && /^\.\.?\//.test(path)) {
        return path.replace(/\.(tsx)$|((?:\.d)?)((?:\.[^./]+?)?)\.([cm]?)ts$/i, function (m, tsx, d, ext, cm) {
            return tsx ? preserveJsx ? ".jsx" : ".js" : d && (!ext || !cm) ? m : (d + ext + "." + cm.toLowerCase() + "js");
        });
    }
    return path;
};
/**
 * Schemas of any library that follows Standard Schema (zod, valibot, arktype, ...), or JSON Schema
 * itself.
 */
import { Failure } from "../errors.js";
export function isStandard(schema) {
    // arktype's schemas are functions.
    return (typeof schema === "object" || typeof schema === "function") && schema !== null && "~standard" in schema;
}
/**
 * Checks a value, and gives what the schema makes of it (defaults, conversions). What does not fit
 * is a `Failure` of this code that names the first few places.
 */
export function check(schema, value, code) {
    const result = schema["~standard"].validate(value);
    return result instanceof Promise ? result.then((late) => accept(late, code)) : accept(result, code);
}
/** Places that are told of a value that does not fit. */
const ISSUES_MAX = 5;
function accept(result, code) {
    if (result.issues === undefined)
        return result.value;
    const told = result.issues.slice(0, ISSUES_MAX).map((issue) => {
        const path = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part));
        return `${["data", ...path].join("/")}: ${issue.message}`;
    });
    const more = result.issues.length - told.length;
    throw new Failure(code, told.join("; ") + (more > 0 ? `; and ${more} more` : ""));
}
const TARGET = "draft-2020-12";
/**
 * The JSON Schema of a schema: its own, its library's by Standard JSON Schema, or by the library's
 * own function.
 */
export async function toJsonSchema(schema, io, what) {
    if (!isStandard(schema))
        return schema;
    const standard = schema["~standard"];
    try {
        const made = standard.jsonSchema?.[io]({ target: TARGET }) ?? (await convert(schema, standard.vendor, io));
        if (made !== undefined)
            return withoutDialect(made);
    }
    catch (error) {
        throw new TypeError(`${what}: ${standard.vendor} cannot express it as JSON Schema: ${error.message}`, {
            cause: error,
        });
    }
    throw new TypeError(`${what}: ${standard.vendor} offers no JSON Schema here; ` +
        (standard.vendor === "valibot" ? "install @valibot/to-json-schema" : "write it as JSON Schema"));
}
/** The ways of libraries, or of versions of them, that do not know Standard JSON Schema. */
async function convert(schema, vendor, io) {
    const own = schema;
    if (typeof own.toJSONSchema === "function")
        return own.toJSONSchema({ target: TARGET, io });
    if (typeof own.toJsonSchema === "function")
        return own.toJsonSchema();
    if (vendor === "zod") {
        const zod = await load("zod");
        return zod?.toJSONSchema?.(schema, { target: TARGET, io });
    }
    if (vendor === "valibot") {
        const valibot = await load("@valibot/to-json-schema");
        return valibot?.toJsonSchema?.(schema, { target: TARGET, typeMode: io });
    }
    return undefined;
}
/** A library of the user's, found from the user's program and not from this package. */
async function load(name) {
    const { createRequire } = await import("node:module");
    const { pathToFileURL } = await import("node:url");
    const { cwd, argv } = (await import("node:process")).default;
    for (const from of [argv[1], `${cwd()}/`]) {
        if (from === undefined)
            continue;
        try {
            return await import(__rewriteRelativeImportExtension(pathToFileURL(createRequire(from).resolve(name)).href));
        }
        catch {
            // The next place.
        }
    }
    return import(__rewriteRelativeImportExtension(name)).catch(() => undefined);
}
/** The name of the dialect belongs to a whole document. */
function withoutDialect(schema) {
    const { $schema: _dialect, "~standard": _standard, ...rest } = schema;
    return rest;
}
