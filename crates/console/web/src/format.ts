// How numbers, times and foreign text are written. Nothing that came from outside reaches the page
// but through `clean`.

/** Characters that would move, hide or reorder what stands around them. */
const HARMFUL = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const HARMFUL_BUT_LINES = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

function visible(character: string): string {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return "\ufffd";
}

/**
 * One line of foreign text: control and direction characters become visible signs, and it ends
 * somewhere.
 */
export function clean(text: unknown, most = 200): string {
  const whole = typeof text === "string" ? text : String(text ?? "");
  const cut = whole.length > most ? `${whole.slice(0, most)}…` : whole;
  return cut.replace(HARMFUL, visible);
}

/** The same for text of several lines. */
export function cleanLines(text: string): string {
  return text.replace(/\t/g, "  ").replace(HARMFUL_BUT_LINES, visible);
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return "–";
  if (Math.abs(value) < 100_000) return whole.format(value);
  if (Math.abs(value) < 1e6) return `${(value / 1e3).toFixed(0)}k`;
  if (Math.abs(value) < 1e9) return `${(value / 1e6).toFixed(value < 1e7 ? 2 : 1)}M`;
  return `${(value / 1e9).toFixed(2)}G`;
}

/** A count for narrow places: `950`, `5.2k`, `41M`. */
export function short(value: number): string {
  if (value < 1000) return whole.format(value);
  const [amount, unit] = value < 1e6 ? [value / 1e3, "k"] : [value / 1e6, "M"];
  return `${amount < 10 ? amount.toFixed(1) : Math.floor(amount)}${unit}`;
}

/** Something per second. */
export function rate(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (value < 0.1) return "<0.1";
  if (value < 10) return value.toFixed(1);
  return count(value);
}

export function bytes(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let amount = value;
  let unit = 0;
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${unit === 0 || amount >= 100 ? amount.toFixed(0) : amount.toFixed(1)} ${units[unit]}`;
}

/** A short span, from microseconds to seconds. */
export function micros(us: number | null | undefined): string {
  if (us == null || !Number.isFinite(us)) return "–";
  if (us < 1) return us === 0 ? "<1 µs" : `${Math.round(us * 1000)} ns`;
  if (us < 1000) return `${us < 10 ? us.toFixed(1) : Math.round(us)} µs`;
  const ms = us / 1000;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(2) : ms < 100 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return millis(ms);
}

export function nanos(ns: number | null | undefined): string {
  return ns == null ? "–" : micros(ns / 1000);
}

/** A long span, from milliseconds to days. */
export function millis(ms: number | null | undefined): string {
  if (ms == null || !Number.isFinite(ms)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return two(minutes, "min", Math.floor(seconds % 60), "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return two(hours, "h", minutes % 60, "min");
  return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** Two units at most, and one where the second is nothing: `1 h 5 min`, `24 h`. */
function two(large: number, unit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${smallUnit}`;
}

export function ago(at: number, now = Date.now()): string {
  const span = Math.max(0, now - at);
  return span < 2000 ? "just now" : `${millis(span)} ago`;
}

const digits = (value: number): string => String(value).padStart(2, "0");

/** The time of day, with milliseconds. */
export function clock(at: number): string {
  const time = new Date(at);
  return `${digits(time.getHours())}:${digits(time.getMinutes())}:${digits(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

export function clockShort(at: number): string {
  return clock(at).slice(0, 8);
}

export function percent(share: number | null | undefined): string {
  if (share == null || !Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

/** `1 message`, `2 messages`. */
export function many(amount: number, one: string, more = `${one}s`): string {
  return `${count(amount)} ${amount === 1 ? one : more}`;
}

/**
 * JSON in which nothing can move, hide or reorder what stands around it: for a terminal that
 * somebody pastes it into.
 */
export function plainJson(value: unknown): string {
  return JSON.stringify(value).replace(HARMFUL, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A word for a POSIX shell. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
