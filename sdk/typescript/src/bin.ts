#!/usr/bin/env node
/** `mainspring-ts`: runs a file that exports a capability, or prints its manifest. */
import process from "node:process";
import { basename, extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { isActorCapability, manifestOfActor, runActor } from "./capability/actor.ts";
import { Capability } from "./capability/capability.ts";

const USAGE = `Runs a capability that a file exports, on standard input and output.

Usage: mainspring-ts [--id ID] FILE            run it, as \`mainspring up\` does
       mainspring-ts manifest [--id ID] FILE   print its manifest as JSON, for capability.json

FILE exports (as default, or as \`capability\`) what \`capability()\` made, or an object of RFC 0032:
{description, inbound, outbound, subscribes, spawn}. Its id is --id, or the name of the file.
TypeScript needs Node 22.18 or later, Deno or Bun.
`;

interface Arguments {
  isManifest: boolean;
  id: string | undefined;
  file: string;
}

function readArguments(words: string[]): Arguments | undefined {
  let id: string | undefined;
  const rest: string[] = [];
  for (let at = 0; at < words.length; at += 1) {
    if (words[at] === "--id") id = words[(at += 1)];
    else rest.push(words[at]!);
  }
  const isManifest = rest[0] === "manifest";
  const file = isManifest ? rest[1] : rest[0];
  return file === undefined || file.startsWith("-") || rest.length > (isManifest ? 2 : 1)
    ? undefined
    : { isManifest, id, file };
}

async function main(): Promise<number> {
  const words = process.argv.slice(2);
  if (words.includes("--help") || words.includes("-h")) {
    process.stdout.write(USAGE);
    return 0;
  }
  const given = readArguments(words);
  if (given === undefined) {
    process.stderr.write(USAGE);
    return 2;
  }
  const path = resolve(given.file);
  const module = (await import(pathToFileURL(path).href)) as Record<string, unknown>;
  const found = module["default"] ?? module["capability"];
  const id = given.id ?? basename(path, extname(path));
  // What follows reads the arguments as the file's own.
  process.argv.splice(1, process.argv.length - 1, path, ...(given.isManifest ? ["--manifest"] : []));
  if (found instanceof Capability) await found.run();
  else if (isActorCapability(found)) {
    if (given.isManifest) {
      const program = { process: ["mainspring-ts", ...(given.id === undefined ? [] : ["--id", id]), basename(path)] };
      process.stdout.write(`${JSON.stringify({ ...(await manifestOfActor(found, id)), program }, null, 2)}\n`);
    } else await runActor(found, { id });
  } else {
    process.stderr.write(
      `${given.file} exports no capability: neither what capability() makes nor an object with inbound and spawn\n`,
    );
    return 1;
  }
  return 0;
}

main().then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    process.exit(1);
  },
);
