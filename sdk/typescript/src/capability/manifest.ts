/** The manifest of a capability, made from its handlers and their schemas. */
import type { CapabilityOptions, Hints } from "./capability.ts";
import type { Registration } from "./core.ts";
import { type Schema, toJsonSchema } from "./schema.ts";

/** What `capability.json` holds. See `docs/reference/configuration.md` for the keys. */
export interface Manifest {
  id: string;
  description: string;
  inbound: Record<string, unknown>;
  outbound?: Record<string, unknown>;
  subscribes?: string[];
  types?: Record<string, Record<string, unknown>>;
  uncaused?: boolean;
  cancel?: boolean;
  limits?: { concurrency: number };
  program?: { process: string[] };
}

type Branch = Record<string, unknown>;

/** `$defs` of the branches are gathered at the top, because references begin there. */
class Definitions {
  readonly all: Record<string, unknown> = {};

  /** A schema whose definitions moved to the top under names of their own. */
  lift(schema: Record<string, unknown>, prefix: string): Record<string, unknown> {
    const own = { ...(schema["$defs"] as object), ...(schema["definitions"] as object) };
    const refersToItself = JSON.stringify(schema).includes('"$ref":"#"');
    if (Object.keys(own).length === 0 && !refersToItself) return schema;
    const rename = (node: unknown): unknown => {
      if (Array.isArray(node)) return node.map(rename);
      if (typeof node !== "object" || node === null) return node;
      return Object.fromEntries(
        Object.entries(node).map(([key, value]) => [key, key === "$ref" ? this.#target(value, prefix) : rename(value)]),
      );
    };
    const { $defs: _defs, definitions: _definitions, ...rest } = schema;
    for (const [name, definition] of Object.entries(own)) this.all[`${prefix}.${name}`] = rename(definition);
    const renamed = rename(rest) as Record<string, unknown>;
    if (!refersToItself) return renamed;
    this.all[prefix] = renamed;
    return { $ref: `#/$defs/${prefix}` };
  }

  #target(reference: unknown, prefix: string): unknown {
    if (typeof reference !== "string") return reference;
    if (reference === "#") return `#/$defs/${prefix}`;
    return reference.replace(/^#\/(\$defs|definitions)\//, `#/$defs/${prefix}.`);
  }
}

export async function makeManifest(
  options: CapabilityOptions,
  registrations: readonly Registration[],
): Promise<Manifest> {
  const manifest: Manifest = {
    id: options.id,
    description: options.description ?? `The capability ${options.id}.`,
    inbound: await inbound(options, registrations),
  };
  const says = await outbound(options, registrations);
  if (says !== undefined) manifest.outbound = says;
  const subscribes = registrations
    .filter((each) => each.kind === "event" && each.input === undefined)
    .map((each) => each.type);
  if (subscribes.length > 0) manifest.subscribes = subscribes;
  const types = hintsOf(registrations);
  if (Object.keys(types).length > 0) manifest.types = types;
  if (options.uncaused === true) manifest.uncaused = true;
  if (options.cancel === true) manifest.cancel = true;
  if (options.concurrency !== undefined) manifest.limits = { concurrency: options.concurrency };
  return manifest;
}

/** The names of hints in a manifest. */
const HINTS = {
  title: "title",
  readOnly: "read_only",
  destructive: "destructive",
  idempotent: "idempotent",
  openWorld: "open_world",
  deprecated: "deprecated",
} as const;

function hintsOf(registrations: readonly Registration[]): Record<string, Record<string, unknown>> {
  const types: Record<string, Record<string, unknown>> = {};
  for (const { type, hints } of registrations) {
    const given = Object.entries(HINTS).filter(([name]) => hints?.[name as keyof Hints] !== undefined);
    if (given.length > 0)
      types[type] = Object.fromEntries(given.map(([name, key]) => [key, hints?.[name as keyof Hints]]));
  }
  return types;
}

async function inbound(options: CapabilityOptions, registrations: readonly Registration[]): Promise<Branch> {
  const definitions = new Definitions();
  const branches: Branch[] = [];
  for (const each of registrations) {
    if (each.kind === "event" && each.input === undefined) continue;
    const branch = await makeBranch(each.kind, each.type, each.input, "input", definitions);
    if (each.description !== undefined) branch["description"] = each.description;
    if (each.examples !== undefined) {
      const properties = branch["properties"] as Branch;
      properties["data"] = { ...(properties["data"] as Branch | undefined), examples: each.examples };
    }
    branches.push(branch);
  }
  if (branches.length === 0) {
    throw new TypeError(
      `capability ${options.id} handles no command, no query and no event with a schema: it would get nothing`,
    );
  }
  return union(branches, definitions);
}

/**
 * What it says: the replies, and events and requests if they are declared. As long as they are not,
 * any of them may be said; a capability that declares both is checked faster, and by name.
 */
async function outbound(
  options: CapabilityOptions,
  registrations: readonly Registration[],
): Promise<Branch | undefined> {
  const requests = registrations.filter((each) => each.kind !== "event");
  if (requests.every((each) => each.output === undefined) && options.emits === undefined && options.asks === undefined)
    return undefined;
  const definitions = new Definitions();
  const branches: Branch[] = [];
  for (const type of new Set(requests.map((each) => each.type))) {
    const schemas = requests.filter((each) => each.type === type).map((each) => each.output);
    for (const schema of new Set(schemas))
      branches.push(await makeBranch("reply", type, schema, "output", definitions));
  }
  const open: string[] = [];
  if (options.emits === undefined) open.push("event");
  else
    for (const [type, schema] of Object.entries(options.emits))
      branches.push(await makeBranch("event", type, schema, "output", definitions));
  if (options.asks === undefined) open.push("command", "query");
  else {
    for (const type of options.asks)
      branches.push({ properties: { kind: { enum: ["command", "query"] }, type: { const: type } } });
    if (options.cancel === true)
      branches.push({ properties: { kind: { const: "command" }, type: { const: "Syscall.Cancel" } } });
  }
  if (open.length > 0) branches.push({ properties: { kind: { enum: open } } });
  return branches.length === 0 ? undefined : union(branches, definitions);
}

async function makeBranch(
  kind: string,
  type: string,
  schema: Schema | undefined,
  io: "input" | "output",
  definitions: Definitions,
): Promise<Branch> {
  const properties: Branch = { kind: { const: kind }, type: { const: type } };
  if (schema !== undefined) {
    const data = await toJsonSchema(schema, io, `${kind} ${type}`);
    properties["data"] = definitions.lift(data, `${kind}.${type}`);
  }
  return { type: "object", properties, required: Object.keys(properties) };
}

function union(branches: Branch[], definitions: Definitions): Branch {
  const whole: Branch = branches.length === 1 ? { ...branches[0] } : { anyOf: branches };
  if (Object.keys(definitions.all).length > 0) whole["$defs"] = definitions.all;
  return whole;
}
