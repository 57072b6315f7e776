// What a form needs to know of a JSON Schema: references followed, parts put together, its shape, a
// value to begin with, and which field a complaint of the daemon is about.

import type { Json } from "../data/api.ts";

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema | boolean>;
  definitions?: Record<string, Schema | boolean>;
  allOf?: (Schema | boolean)[];
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema | boolean>;
  required?: string[];
  items?: Schema | boolean;
  enum?: Json[];
  const?: Json;
  oneOf?: Schema[];
  anyOf?: Schema[];
  default?: Json;
  examples?: Json[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  additionalProperties?: Schema | boolean;
}

/** Depth and properties that a form has at most: schemas come from outside. */
const DEPTH_MAX = 6;
export const PROPERTIES_MAX = 60;

export type Shape = "object" | "string" | "number" | "integer" | "boolean" | "choice" | "list" | "alternatives" | "constant" | "any";

export function shape(schema: Schema | boolean | undefined, depth = 0): Shape {
  if (schema === undefined || typeof schema === "boolean" || depth > DEPTH_MAX) return "any";
  if (schema.const !== undefined) return "constant";
  if (Array.isArray(schema.enum) && schema.enum.length <= 200) return "choice";
  if (schema.oneOf ?? schema.anyOf) return "alternatives";
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type;
  if (type === "object") return Object.keys(schema.properties ?? {}).length <= PROPERTIES_MAX && (schema.properties ?? schema.additionalProperties === false) ? "object" : "any";
  if (type === "array") return "list";
  if (type === "string" || type === "number" || type === "integer" || type === "boolean") return type;
  return schema.properties ? "object" : "any";
}

/** A value to begin with. */
export function initial(schema: Schema | boolean | undefined, depth = 0): Json {
  if (schema === undefined || typeof schema === "boolean") return null;
  if (schema.default !== undefined) return schema.default;
  if (depth === 0 && schema.examples?.[0] !== undefined) return schema.examples[0];
  switch (shape(schema, depth)) {
    case "constant":
      return schema.const ?? null;
    case "choice":
      return schema.enum?.[0] ?? null;
    case "alternatives":
      return initial((schema.oneOf ?? schema.anyOf)?.[0], depth + 1);
    case "object": {
      const required = schema.required ?? [];
      const filled = required.map((name) => [name, initial(schema.properties?.[name], depth + 1)] as const);
      return Object.fromEntries(filled);
    }
    case "string":
      return "";
    case "number":
    case "integer":
      return schema.minimum ?? 0;
    case "boolean":
      return false;
    case "list":
      return [];
    default:
      return schema.type === "object" ? {} : null;
  }
}

/** Parts of a schema that a form looks at. */
const PARTS_MAX = 2000;

/**
 * A schema with references followed and the parts of `allOf` put together, as deep as forms go:
 * references may lead in a circle.
 */
export function plain(schema: Schema | boolean, root = schema, depth = 0, budget = { left: PARTS_MAX }): Schema | boolean {
  if (typeof schema !== "object" || schema === null) return schema;
  if (depth > DEPTH_MAX + 2 || (budget.left -= 1) < 0) return true;
  const { $ref, allOf, ...own } = schema;
  const parts = [...($ref === undefined ? [] : [found($ref, root)]), ...(Array.isArray(allOf) ? allOf : [])];
  const objects = parts.map((part) => plain(part, root, depth + 1, budget)).filter((part) => typeof part === "object");
  const whole = [...objects, own].reduce(joined, {});
  const inner = (part: Schema | boolean): Schema | boolean => plain(part, root, depth + 1, budget);
  const options = (list: Schema[]): Schema[] => list.map(inner).filter((option) => typeof option === "object");
  return {
    ...whole,
    ...(whole.properties ? { properties: Object.fromEntries(Object.entries(whole.properties).map(([name, part]) => [name, inner(part)])) } : {}),
    ...(whole.items === undefined ? {} : { items: inner(whole.items) }),
    ...(Array.isArray(whole.oneOf) ? { oneOf: options(whole.oneOf) } : {}),
    ...(Array.isArray(whole.anyOf) ? { anyOf: options(whole.anyOf) } : {}),
  };
}

function joined(one: Schema, other: Schema): Schema {
  const properties = one.properties || other.properties ? { properties: { ...one.properties, ...other.properties } } : {};
  const required = one.required || other.required ? { required: [...new Set([...(one.required ?? []), ...(other.required ?? [])])] } : {};
  return { ...one, ...other, ...properties, ...required };
}

function found(reference: string, root: Schema | boolean): Schema | boolean {
  if (!reference.startsWith("#")) return true;
  let at: unknown = root;
  for (const step of reference.slice(1).split("/").slice(1)) at = Object(at)[step.replaceAll("~1", "/").replaceAll("~0", "~")];
  return typeof at === "object" && at !== null && !Array.isArray(at) ? (at as Schema) : true;
}

/** What the daemon complains about, by the path of the field: `data.items.0.sku`. */
export type Complaints = Map<string, string>;

/**
 * The field that a complaint like `data/items/0/sku: 7 is not of type "string"` is about. A member
 * that is missing or too much is its own field.
 */
export function complaints(text: string): Complaints {
  const match = /^\s*(data(?:\/[^:\n]*)?): (.*)$/s.exec(text);
  if (!match) return new Map([["data", text]]);
  const [, pointer = "data", reason = text] = match;
  const path = pointer.split("/").map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~")).join(".");
  const member = /^"([^"]+)" is a required property/.exec(reason)?.[1] ?? /^Additional properties are not allowed \('([^']+)'/.exec(reason)?.[1];
  return new Map([[member === undefined ? path : `${path}.${member}`, reason]]);
}

/** What a value must be like, in a few words. */
export function limits(schema: Schema): string {
  const words = [
    schema.format ?? "",
    schema.minimum !== undefined ? `at least ${schema.minimum}` : "",
    schema.exclusiveMinimum !== undefined ? `more than ${schema.exclusiveMinimum}` : "",
    schema.maximum !== undefined ? `at most ${schema.maximum}` : "",
    schema.exclusiveMaximum !== undefined ? `less than ${schema.exclusiveMaximum}` : "",
    schema.multipleOf !== undefined ? `a multiple of ${schema.multipleOf}` : "",
    schema.minLength ? `at least ${schema.minLength} characters` : "",
    schema.maxLength !== undefined ? `at most ${schema.maxLength} characters` : "",
    schema.pattern !== undefined ? `like ${schema.pattern}` : "",
  ];
  return words.filter(Boolean).join(", ");
}
