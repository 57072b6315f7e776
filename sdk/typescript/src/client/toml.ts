/** Reads TOML 1.0, for `mainspring.toml`. Dates are left as text: nothing here has one. */

type Table = { [key: string]: unknown };

/**
 * Bare values: numbers, booleans, dates. They end where a comma, a bracket, a comment or the line
 * ends.
 */
const BARE_VALUE = /[^,\]}#\r\n]+/y;
const BARE_KEY = /[A-Za-z0-9_-]+/y;
const SPACE = /[ \t]*/y;
const BLANK = /(?:[ \t\r\n]|#[^\n]*)*/y;
const DEPTH_MAX = 64;
const ESCAPES: Record<string, string> = {
  b: "\b",
  t: "\t",
  n: "\n",
  f: "\f",
  r: "\r",
  '"': '"',
  "\\": "\\",
  e: "\u001b",
};

/**
 * Reads a document.
 *
 * @throws {SyntaxError} It is no TOML; the message has the line.
 */
export function parseToml(text: string): Table {
  return new Reader(text).document();
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text.replace(/^\uFEFF/, "");
  }

  document(): Table {
    const root: Table = Object.create(null);
    let table = root;
    for (this.#skip(BLANK); this.#at < this.#text.length; this.#skip(BLANK)) {
      if (this.#peek() === "[") table = this.#header(root);
      else this.#pair(table);
      this.#skip(SPACE);
      if (this.#at < this.#text.length && !"\r\n#".includes(this.#peek()))
        throw this.#wrong("expected the end of the line");
    }
    return root;
  }

  #header(root: Table): Table {
    const isArray = this.#text.startsWith("[[", this.#at);
    this.#at += isArray ? 2 : 1;
    const keys = this.#keys();
    this.#expect(isArray ? "]]" : "]");
    const last = keys.pop()!;
    const parent = keys.reduce((table, key) => this.#descend(table, key), root);
    if (!isArray) return this.#descend(parent, last);
    const list = (parent[last] ??= []);
    if (!Array.isArray(list)) throw this.#wrong(`${last} is no list of tables`);
    const table: Table = Object.create(null);
    list.push(table);
    return table;
  }

  #pair(table: Table): void {
    const keys = this.#keys();
    this.#expect("=");
    this.#skip(SPACE);
    const value = this.#value(0);
    const last = keys.pop()!;
    const parent = keys.reduce((inner, key) => this.#descend(inner, key), table);
    if (last in parent) throw this.#wrong(`${last} is there twice`);
    parent[last] = value;
  }

  #descend(table: Table, key: string): Table {
    const inner = (table[key] ??= Object.create(null));
    const found = Array.isArray(inner) ? inner[inner.length - 1] : inner;
    if (typeof found !== "object" || found === null || Array.isArray(found)) throw this.#wrong(`${key} is no table`);
    return found as Table;
  }

  #keys(): string[] {
    const keys: string[] = [];
    do {
      this.#skip(SPACE);
      const quote = this.#peek();
      if (quote === '"') keys.push(this.#basic());
      else if (quote === "'") keys.push(this.#literal());
      else keys.push(this.#match(BARE_KEY, "expected a key"));
      this.#skip(SPACE);
    } while (this.#take("."));
    return keys;
  }

  #value(depth: number): unknown {
    if (depth > DEPTH_MAX) throw this.#wrong(`more than ${DEPTH_MAX} levels`);
    switch (this.#peek()) {
      case '"':
        return this.#text.startsWith('"""', this.#at) ? this.#long('"""') : this.#basic();
      case "'":
        return this.#text.startsWith("'''", this.#at) ? this.#long("'''") : this.#literal();
      case "[":
        return this.#array(depth);
      case "{":
        return this.#inline(depth);
      default:
        return bare(this.#match(BARE_VALUE, "expected a value").trim(), (message) => this.#wrong(message));
    }
  }

  #array(depth: number): unknown[] {
    this.#at += 1;
    const values: unknown[] = [];
    for (this.#skip(BLANK); !this.#take("]"); this.#skip(BLANK)) {
      values.push(this.#value(depth + 1));
      this.#skip(BLANK);
      if (!this.#take(",") && this.#peek() !== "]") throw this.#wrong("expected , or ]");
    }
    return values;
  }

  #inline(depth: number): Table {
    this.#at += 1;
    const table: Table = Object.create(null);
    for (this.#skip(BLANK); !this.#take("}"); this.#skip(BLANK)) {
      if (depth > DEPTH_MAX) throw this.#wrong(`more than ${DEPTH_MAX} levels`);
      this.#pair(table);
      this.#skip(BLANK);
      if (!this.#take(",") && this.#peek() !== "}") throw this.#wrong("expected , or }");
    }
    return table;
  }

  #basic(): string {
    this.#at += 1;
    let value = "";
    for (;;) {
      const character = this.#peek();
      if (character === "" || character === "\n") throw this.#wrong('expected "');
      this.#at += 1;
      if (character === '"') return value;
      value += character === "\\" ? this.#escape() : character;
    }
  }

  #literal(): string {
    const end = this.#text.indexOf("'", this.#at + 1);
    const value = this.#text.slice(this.#at + 1, end);
    if (end < 0 || value.includes("\n")) throw this.#wrong("expected '");
    this.#at = end + 1;
    return value;
  }

  #long(quotes: string): string {
    this.#at += 3;
    if (this.#take("\r\n") || this.#take("\n")) {
      // The line break after the quotes does not count.
    }
    let value = "";
    while (!this.#text.startsWith(quotes, this.#at)) {
      const character = this.#peek();
      if (character === "") throw this.#wrong(`expected ${quotes}`);
      this.#at += 1;
      if (character !== "\\" || quotes === "'''") value += character;
      else if (/^[ \t]*\r?\n/.test(this.#text.slice(this.#at, this.#at + 80))) this.#skip(/\s*/y);
      else value += this.#escape();
    }
    this.#at += 3;
    // Up to two quotes may stand right before the end.
    while (this.#peek() === quotes[0]) {
      value += quotes[0];
      this.#at += 1;
    }
    return value;
  }

  #escape(): string {
    const letter = this.#peek();
    this.#at += 1;
    const known = ESCAPES[letter];
    if (known !== undefined) return known;
    const digits = { x: 2, u: 4, U: 8 }[letter];
    const code = digits === undefined ? "" : this.#text.slice(this.#at, this.#at + digits);
    if (digits === undefined || !/^[0-9a-fA-F]+$/.test(code) || code.length < digits || parseInt(code, 16) > 0x10ffff)
      throw this.#wrong("unknown escape");
    this.#at += digits;
    return String.fromCodePoint(parseInt(code, 16));
  }

  #peek(): string {
    return this.#text.charAt(this.#at);
  }

  #take(text: string): boolean {
    if (!this.#text.startsWith(text, this.#at)) return false;
    this.#at += text.length;
    return true;
  }

  #expect(text: string): void {
    this.#skip(SPACE);
    if (!this.#take(text)) throw this.#wrong(`expected ${text}`);
  }

  #skip(pattern: RegExp): void {
    pattern.lastIndex = this.#at;
    if (pattern.test(this.#text)) this.#at = pattern.lastIndex;
  }

  #match(pattern: RegExp, otherwise: string): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found === null) throw this.#wrong(otherwise);
    this.#at = pattern.lastIndex;
    return found[0];
  }

  #wrong(message: string): SyntaxError {
    const line = this.#text.slice(0, this.#at).split("\n").length;
    return new SyntaxError(`line ${line}: ${message}`);
  }
}

function bare(word: string, wrong: (message: string) => SyntaxError): unknown {
  if (word === "true" || word === "false") return word === "true";
  if (/^[+-]?(inf|nan)$/.test(word)) return word.endsWith("nan") ? NaN : word.startsWith("-") ? -Infinity : Infinity;
  if (/^\d{4}-\d\d-\d\d|^\d\d:\d\d/.test(word)) return word;
  const digits = word.replaceAll("_", "");
  if (/^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(digits) || /^0(x[0-9a-fA-F]+|o[0-7]+|b[01]+)$/.test(digits))
    return Number(digits);
  throw wrong(`${JSON.stringify(word)} is no value`);
}
