// Builds the page into ../assets: `node build.mjs`. With --check it builds into memory and
// compares: what the crate carries must come from these sources. With --watch it builds again on
// every change.
import { build } from "esbuild";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";

const web = dirname(fileURLToPath(import.meta.url));
const assets = join(web, "../assets");
/** What the page may weigh on the wire, all of it. */
const COMPRESSED_BYTES_MAX = 120_000;

/** The built files by name, as text. */
export async function built() {
  const result = await build({
    absWorkingDir: web,
    entryPoints: { console: "src/main.tsx" },
    outdir: "out",
    bundle: true,
    format: "esm",
    target: ["chrome120", "firefox120", "safari17"],
    minify: true,
    legalComments: "none",
    charset: "utf8",
    jsx: "automatic",
    jsxImportSource: "preact",
    write: false,
    logLevel: "warning",
  });
  const files = Object.fromEntries(result.outputFiles.map((file) => [file.path.split("/").at(-1), file.text]));
  files["index.html"] = readFileSync(join(web, "src/index.html"), "utf8");
  files["icon.svg"] = readFileSync(join(web, "src/icon.svg"), "utf8");
  return files;
}

function check(files) {
  const stale = Object.entries(files).filter(([name, text]) => {
    try {
      const plain = readFileSync(join(assets, name), "utf8");
      const packed = gunzipSync(readFileSync(join(assets, `${name}.gz`))).toString("utf8");
      return plain !== text || packed !== text;
    } catch {
      return true;
    }
  });
  const known = new Set(Object.keys(files).flatMap((name) => [name, `${name}.gz`]));
  const wrong = [...stale.map(([name]) => name), ...readdirSync(assets).filter((name) => !known.has(name))];
  if (wrong.length === 0) return;
  console.error(`stale: ${wrong.join(", ")}; run \`cargo xtask console --build\` and commit crates/console/assets`);
  process.exit(1);
}

function write(files) {
  mkdirSync(assets, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    // Compressed files are written only when they would hold something else: other releases of zlib
    // pack differently.
    let same = false;
    try {
      same = gunzipSync(readFileSync(join(assets, `${name}.gz`))).toString("utf8") === text;
    } catch {}
    writeFileSync(join(assets, name), text);
    if (!same) writeFileSync(join(assets, `${name}.gz`), gzipSync(text, { level: 9 }));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const files = await built();
  if (process.argv.includes("--check")) check(files);
  else write(files);
  let total = 0;
  for (const [name, text] of Object.entries(files)) {
    const bytes = gzipSync(text, { level: 9 }).length;
    total += bytes;
    console.log(`${String(text.length).padStart(8)} ${String(bytes).padStart(8)} ${name}`);
  }
  console.log(`${total} bytes compressed, of ${COMPRESSED_BYTES_MAX}`);
  if (total > COMPRESSED_BYTES_MAX) process.exit(1);
}
