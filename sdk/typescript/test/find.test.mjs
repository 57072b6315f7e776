import assert from "node:assert/strict";
import { chmodSync, chownSync, mkdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import process from "node:process";
import test from "node:test";
import { ConnectError, connect, findDaemon } from "@mainspring/sdk";
import { makeFolder } from "./daemon.mjs";

const { parseToml } = await import(new URL("./client/toml.js", import.meta.resolve("@mainspring/sdk")));
const plain = (value) => JSON.parse(JSON.stringify(value));

test("the TOML that a configuration may have is read", () => {
  const text = `
# a comment
manifests = ["a/*.toml", 'b.json',] # another
native = []
"quoted key" = "esc \\" \\\\ \\u00e4 \\U0001F642 \\t"
dotted.key.path = 1_000
when = 1979-05-27T07:32:00Z
numbers = [0x1f, 0o17, 0b11, -1.5e3, +7, inf]
long = """
first \\
   joined
second ""quoted"" """
literal = '''
C:\\no\\escape'''

[timeouts]
default = "10s"
nested = { a = { b = [1, { c = true }] }, "d.e" = false }

[[listen]]
unix = "run/app.sock"

[[listen]]
tcp = "127.0.0.1:7700"
tokens = [
  { name = "one", token = "secret" }, # the first
  { name = "two", token_file = "file" },
]

[[listen.extra]]
deep = 1
`;
  const found = parseToml(text);
  assert.deepEqual(plain(found.manifests), ["a/*.toml", "b.json"]);
  assert.equal(found["quoted key"], 'esc " \\ ä 🙂 \t');
  assert.equal(found.dotted.key.path, 1000);
  assert.equal(found.when, "1979-05-27T07:32:00Z");
  assert.deepEqual([...found.numbers], [31, 15, 3, -1500, 7, Infinity]);
  assert.equal(found.long, 'first joined\nsecond ""quoted"" ');
  assert.equal(found.literal, "C:\\no\\escape");
  assert.deepEqual(plain(found.timeouts), { default: "10s", nested: { a: { b: [1, { c: true }] }, "d.e": false } });
  assert.equal(found.listen.length, 2);
  assert.equal(found.listen[1].tokens[1].token_file, "file");
  assert.equal(found.listen[1].extra[0].deep, 1);
});

test("what is no TOML is told with its line", () => {
  for (const [text, line] of [
    ["a = ", 1],
    ["ok = 1\na == 2", 2],
    ["[[listen]\n", 1],
    ['a = "open\nb = 1', 1],
    ["a = 1\na = 2", 2],
    ["a = [1, 2", 1],
    ["a = 1 b = 2", 1],
    ["a = nonsense", 1],
    ["a = 1\n[a]\n", 2],
    ['a = "\\q"', 1],
    [`a = ${"[".repeat(100)}`, 1],
  ]) {
    assert.throws(() => parseToml(text), new RegExp(`^SyntaxError: line ${line}: `), text);
  }
});

test("a key called __proto__ is a key", () => {
  const found = parseToml('__proto__.polluted = 1\n[constructor]\nprototype = "x"');
  assert.equal({}.polluted, undefined);
  assert.equal(found.constructor.prototype, "x");
});

test("a place that makes no sense is refused in words", () => {
  assert.throws(() => findDaemon({ tcp: "nowhere" }), /expected a host and a port/);
  assert.throws(() => findDaemon({ tcp: "127.0.0.1:99999", token: "t" }), /expected a host and a port/);
  assert.throws(() => findDaemon({ tcp: "127.0.0.1:1", tokenFile: "/no/such/file" }), /the token in \/no\/such\/file/);
  assert.throws(() => findDaemon({ token: "t" }), /a token is for `tcp`/);
  assert.deepEqual(findDaemon({ tcp: "[::1]:7700", token: "t" }), { host: "::1", port: 7700, token: "t" });
  assert.ok(findDaemon({ socket: "x" }).unix === "x");
});

const skip = process.getuid?.() !== 0 ? "only root can make files of others" : false;

test("a socket, or its folder, of another user is told nothing", { skip }, async () => {
  const folder = makeFolder();
  const heard = [];
  const server = createServer((socket) => socket.on("data", (data) => heard.push(data)).on("error", () => {}));
  const path = join(folder, "theirs", "app.sock");
  mkdirSync(join(folder, "theirs"));
  await new Promise((done) => server.listen(path, done));
  try {
    for (const [place, back] of [
      [path, 0],
      [join(folder, "theirs"), 0],
    ]) {
      chownSync(place, 12345, 12345);
      const error = await connect({ socket: path }).catch((reason) => reason);
      assert.ok(error instanceof ConnectError);
      assert.match(error.message, /belongs to user 12345/);
      chownSync(place, back, back);
    }
    assert.deepEqual(heard, []);
  } finally {
    await new Promise((done) => server.close(done));
    rmSync(folder, { recursive: true });
  }
});

/** Runs something in a folder, with a home and without what the environment says about a daemon. */
function within(folder, home, run) {
  const [there, before] = [process.cwd(), { ...process.env }];
  for (const name of ["MAINSPRING_TCP", "MAINSPRING_SOCKET"]) delete process.env[name];
  process.env.HOME = home;
  process.chdir(folder);
  try {
    return run();
  } finally {
    process.chdir(there);
    Object.assign(process.env, before);
  }
}

test("below a project its file is found, up to the home folder", () => {
  const folder = realpathSync(makeFolder());
  const below = join(folder, "a", "b");
  mkdirSync(below, { recursive: true });
  writeFileSync(join(folder, "mainspring.toml"), '[[listen]]\nunix = "app.sock"\n');
  for (const home of ["/nowhere", folder]) {
    assert.deepEqual(within(below, home, findDaemon), { unix: join(folder, "app.sock") });
  }
  assert.notEqual(within(below, join(folder, "a"), findDaemon).unix, join(folder, "app.sock"));
  rmSync(folder, { recursive: true });
});

test("the file of another user above this folder is refused", { skip }, () => {
  const folder = realpathSync(makeFolder());
  mkdirSync(join(folder, "b"));
  const file = join(folder, "mainspring.toml");
  writeFileSync(file, '[[listen]]\nunix = "app.sock"\n');
  for (const place of [file, folder]) {
    chownSync(place, 12345, 0);
    assert.throws(() => within(join(folder, "b"), "/nowhere", findDaemon), /belongs to user 12345/);
    chownSync(place, 0, 0);
  }
  assert.deepEqual(within(join(folder, "b"), "/nowhere", findDaemon), { unix: join(folder, "app.sock") });
  rmSync(folder, { recursive: true });
});

test("a token that others may read is refused", () => {
  const folder = makeFolder();
  const file = join(folder, "token");
  writeFileSync(file, "a token\n");
  chmodSync(file, 0o644);
  assert.throws(() => findDaemon({ tcp: "127.0.0.1:1", tokenFile: file }), /chmod 600/);
  chmodSync(file, 0o600);
  assert.equal(findDaemon({ tcp: "127.0.0.1:1", tokenFile: file }).token, "a token");
  rmSync(folder, { recursive: true });
});
