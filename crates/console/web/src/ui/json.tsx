// Foreign data as text: indented, coloured, bounded, and nothing but text.

import { useState } from "preact/hooks";
import type { Json } from "../data/api.ts";
import { bytes, cleanLines } from "../format.ts";
import { copy, Icon } from "./bits.tsx";

/** Characters that are shown at once. */
const SHOWN_MAX = 16_000;
/** Characters that are coloured: each piece is an element. */
const COLOURED_MAX = 16_000;
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

function coloured(text: string) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    parts.push(text.slice(end, match.index));
    const [whole, string, colon] = match;
    const tone = colon ? "name" : string ? "string" : /^[tfn]/.test(whole) ? "word" : "number";
    parts.push(<span class={`json-${tone}`}>{colon ? string : whole}</span>);
    if (colon) parts.push(colon);
    end = match.index + whole.length;
  }
  parts.push(text.slice(end));
  return parts;
}

export function JsonView({ value, label }: { value: Json; label: string }) {
  const [all, setAll] = useState(false);
  const text = typeof value === "string" && value.length > SHOWN_MAX ? value : (JSON.stringify(value, null, 2) ?? "null");
  const shown = cleanLines(all ? text.slice(0, 1 << 20) : text.slice(0, SHOWN_MAX));
  return (
    <div class="json">
      <button type="button" class="button quiet json-copy" aria-label={`Copy ${label}`} onClick={() => void copy(text, label)}>
        <Icon name="copy" />
      </button>
      <pre tabIndex={0} aria-label={label}>
        {shown.length <= COLOURED_MAX ? coloured(shown) : shown}
        {!all && text.length > SHOWN_MAX ? "…" : ""}
      </pre>
      {!all && text.length > SHOWN_MAX && (
        <button type="button" class="button" onClick={() => setAll(true)}>
          Show all {bytes(text.length)}
        </button>
      )}
    </div>
  );
}
