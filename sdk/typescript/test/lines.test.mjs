import assert from "node:assert/strict";
import test from "node:test";

const { LineSplitter } = await import(new URL("./message/lines.js", import.meta.resolve("@mainspring/sdk")));

test("however text is divided, the lines are the same", () => {
  const text = 'one\n\n{"two":2}\r\n  \n\tthree \nfour ä 🙂\nlast';
  const wanted = ["one", '{"two":2}\r', "\tthree ", "four ä 🙂", "last"];
  for (let size = 1; size <= text.length; size += 1) {
    const lines = [];
    const splitter = new LineSplitter();
    for (let at = 0; at < text.length; at += size) splitter.push(text.slice(at, at + size), (line) => lines.push(line));
    splitter.end((line) => lines.push(line));
    assert.deepEqual(lines, wanted, `in pieces of ${size}`);
  }
});

test("a line without an end is told once it is too long, and the next one counts", () => {
  const lines = [];
  const splitter = new LineSplitter(100);
  assert.throws(() => {
    for (let count = 0; count < 20; count += 1) splitter.push("0123456789", (line) => lines.push(line));
  }, /a line is longer than 100 characters/);
  splitter.push("\nnext\n", (line) => lines.push(line));
  assert.deepEqual(lines, ["next"]);
});
