import assert from "node:assert/strict";
import test from "node:test";
import { parseJson, stringifyJson } from "@mainspring/sdk";

test("integers that a number cannot hold are bigints, all others numbers", () => {
  const read = (text) => parseJson(text);
  assert.equal(read("9007199254740991"), 9007199254740991);
  assert.equal(read("9007199254740992"), 9007199254740992n);
  assert.equal(read("-9007199254740993"), -9007199254740993n);
  assert.equal(read("12345678901234567890123"), 12345678901234567890123n);
  assert.equal(read("1234567890123456"), 1234567890123456);
  assert.equal(read("12345678901234567890.5"), 12345678901234567890.5);
  assert.equal(read("12345678901234567890e3"), 12345678901234567890e3);
  assert.deepEqual(read('{"a":[9007199254740993,{"b":-9007199254740993}],"c":1.5}'), {
    a: [9007199254740993n, { b: -9007199254740993n }],
    c: 1.5,
  });
});

test("digits in texts and names stay texts and names", () => {
  const text = '{"12345678901234567890":"98765432109876543210 \\" 12345678901234567890","n":1}';
  assert.deepEqual(parseJson(text), JSON.parse(text));
  const both = '{"12345678901234567890":"98765432109876543210","n":12345678901234567890}';
  assert.deepEqual(parseJson(both), { "12345678901234567890": "98765432109876543210", n: 12345678901234567890n });
});

test("a run of sixteen digits is found wherever it begins", () => {
  for (let before = 0; before < 40; before += 1) {
    const text = `[${" ".repeat(before)}9007199254740993]`;
    assert.deepEqual(parseJson(text), [9007199254740993n]);
  }
});

test("what is not JSON is refused however long its numbers are", () => {
  for (const text of [
    "01234567890123456789",
    "{12345678901234567890:1}",
    "[12345678901234567890 1]",
    "12345678901234567890x",
    "-",
    "[9007199254740993",
    '"9007199254740993',
    "1234567890123456.",
    "+12345678901234567890",
    "12345678901234567890 12345678901234567890",
  ]) {
    assert.throws(() => parseJson(text), SyntaxError, text);
  }
});

test("bigints are written as integers, and nothing else changes", () => {
  assert.equal(stringifyJson(2n ** 64n), "18446744073709551616");
  assert.equal(
    stringifyJson({ a: -1n, b: [10n ** 30n, "1"], c: undefined }),
    '{"a":-1,"b":[1000000000000000000000000000000,"1"]}',
  );
  assert.equal(stringifyJson(undefined), "null");
  assert.equal(stringifyJson("x"), '"x"');
});

test("what cannot be written is a TypeError", () => {
  const itself = { n: 1n };
  itself.itself = itself;
  assert.throws(() => stringifyJson(itself), TypeError);
  assert.throws(() => stringifyJson(() => {}), TypeError);
  assert.throws(() => stringifyJson(Symbol("s")), TypeError);
});

test("random values survive both ways", () => {
  let seed = 42;
  const random = (below) => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    return seed % below;
  };
  const make = (depth) => {
    switch (random(depth > 4 ? 4 : 6)) {
      case 0:
        return random(2) === 0
          ? BigInt(random(1e9)) * 10n ** BigInt(8 + random(20)) + 9007199254740993n
          : -BigInt(random(1e9)) - 9007199254740993n;
      case 1:
        return random(1e9) / 1000;
      case 2:
        return `${random(1e9)}${"1234567890".repeat(random(3))}"\\ä🙂`;
      case 3:
        return [null, true, false][random(3)];
      case 4:
        return Array.from({ length: random(4) }, () => make(depth + 1));
      default:
        return Object.fromEntries(Array.from({ length: random(4) }, () => [String(random(1e6)), make(depth + 1)]));
    }
  };
  for (let round = 0; round < 2000; round += 1) {
    const value = make(0);
    assert.deepEqual(parseJson(stringifyJson(value)), value);
  }
});

test("a line of eight million characters is read the exact way, too", () => {
  const text = `{"n":12345678901234567890,"text":"${"x".repeat(8_000_000)}"}`;
  assert.equal(parseJson(text).n, 12345678901234567890n);
});
