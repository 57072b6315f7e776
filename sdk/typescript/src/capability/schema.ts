/**
 * Schemas of any library that follows Standard Schema (zod, valibot, arktype, ...), or JSON Schema
 * itself.
 */
import { Failure } from "../errors.ts";

/** The part of Standard Schema v1 that is used here (https://standardschema.dev). */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Result<Output> | Promise<Result<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly jsonSchema?: { readonly input: Converter; readonly output: Converter } | undefined;
  };
}

type Converter = (options: { target: string }) => Record<string, unknown>;
type Result<Output> = { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly Issue[] };
interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A JSON Schema, as an object. It is checked by the daemon; nothing is checked here. */
export type JsonSchema = { readonly [keyword: string]: unknown; readonly "~standard"?: undefined };

/** Any schema. */
export type Schema = StandardSchema<any, any> | JsonSchema;

/** What a handler gets: the schema's output. JSON Schemas tell no type. */
export type OutputOf<S> = S extends StandardSchema<any, infer Output> ? Output : any;
/** What has to be given: the schema's input. */
export type InputOf<S> = S extends StandardSchema<infer Input, any> ? Input : any;

export function isStandard(schema: Schema): schema is StandardSchema {
  // arktype's schemas are functions.
  return (typeof schema === "object" || typeof schema === "function") && schema !== null && "~standard" in schema;
}

/**
 * Checks a value, and gives what the schema makes of it (defaults, conversions). What does not fit
 * is a `Failure` of this code that names the first few places.
 */
export function check(schema: StandardSchema, value: unknown, code: number): unknown {
  const result = schema["~standard"].validate(value);
  return result instanceof Promise ? result.then((late) => accept(late, code)) : accept(result, code);
}

/** Places that are told of a value that does not fit. */
const ISSUES_MAX = 5;

function accept(result: Result<unknown>, code: number): unknown {
  if (result.issues === undefined) return result.value;
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
export async function toJsonSchema(
  schema: Schema,
  io: "input" | "output",
  what: string,
): Promise<Record<string, unknown>> {
  if (!isStandard(schema)) return schema as Record<string, unknown>;
  const standard = schema["~standard"];
  try {
    const made = standard.jsonSchema?.[io]({ target: TARGET }) ?? (await convert(schema, standard.vendor, io));
    if (made !== undefined) return withoutDialect(made);
  } catch (error) {
    throw new TypeError(`${what}: ${standard.vendor} cannot express it as JSON Schema: ${(error as Error).message}`, {
      cause: error,
    });
  }
  throw new TypeError(
    `${what}: ${standard.vendor} offers no JSON Schema here; ` +
      (standard.vendor === "valibot" ? "install @valibot/to-json-schema" : "write it as JSON Schema"),
  );
}

/** The ways of libraries, or of versions of them, that do not know Standard JSON Schema. */
async function convert(
  schema: object,
  vendor: string,
  io: "input" | "output",
): Promise<Record<string, unknown> | undefined> {
  const own = schema as {
    toJSONSchema?: (options: object) => Record<string, unknown>;
    toJsonSchema?: () => Record<string, unknown>;
  };
  if (typeof own.toJSONSchema === "function") return own.toJSONSchema({ target: TARGET, io });
  if (typeof own.toJsonSchema === "function") return own.toJsonSchema();
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
async function load(name: string): Promise<any> {
  const { createRequire } = await import("node:module");
  const { pathToFileURL } = await import("node:url");
  const { cwd, argv } = (await import("node:process")).default;
  for (const from of [argv[1], `${cwd()}/`]) {
    if (from === undefined) continue;
    try {
      return await import(pathToFileURL(createRequire(from).resolve(name)).href);
    } catch {
      // The next place.
    }
  }
  return import(name).catch(() => undefined);
}

/** The name of the dialect belongs to a whole document. */
function withoutDialect(schema: Record<string, unknown>): Record<string, unknown> {
  const { $schema: _dialect, "~standard": _standard, ...rest } = schema;
  return rest;
}
