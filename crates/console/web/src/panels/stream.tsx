// The stream: messages as they pass, newest on top, filtered by the daemon so that a filter sees
// everything that fits.

import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { actors, rights } from "../data/live.ts";
import { everything, Feed, matches, NO_FILTER, placeName, ROWS_MAX, type Filter, type Row } from "../data/tap.ts";
import { clean, clock, count, micros } from "../format.ts";
import { Action, Empty, Icon, Kind } from "../ui/bits.tsx";
import { isTyping } from "../ui/keys.ts";
import { VirtualList } from "../ui/virtual.tsx";
import { TraceView } from "./trace.tsx";

const ROW_HEIGHT = 30;
/** How long typing must rest before the daemon is asked for another tap. */
const REST_MS = 300;

/** The filter and the pause outlive a visit to another panel. */
const filter = signal<Filter>(NO_FILTER);
const text = signal("");
/** The newest row when the stream was paused; null while it runs. */
const pausedAt = signal<number | null>(null);
const chosen = signal<Row | null>(null);
/** The newest row when somebody began to aim at one: rows that move cannot be hit. */
const heldAt = signal<number | null>(null);
/** How long rows stand still after the pointer moved. */
const HOLD_MS = 1200;
let holding: ReturnType<typeof setTimeout> | undefined;

function hold(): void {
  heldAt.value ??= everything.value?.rows.at(-1)?.serial ?? null;
  clearTimeout(holding);
  holding = setTimeout(release, HOLD_MS);
}

function release(): void {
  clearTimeout(holding);
  heldAt.value = null;
}

/** Words like `Order.*` are patterns of types; anything else is looked for in what a row shows. */
function patterns(words: string): string[] {
  return words.split(/[\s,]+/).filter((word) => /^[A-Za-z][\w-]*(\.[\w-]+)*\.(\*|[\w-]+)$/.test(word));
}

function shows(row: Row, words: string): boolean {
  if (words === "" || patterns(words).length > 0) return true;
  const all = `${row.type} ${row.id} ${row.correlation ?? ""} ${placeName(row.from)} ${placeName(row.to)} ${row.outcome?.code ?? ""}`;
  return all.toLowerCase().includes(words.toLowerCase());
}

/** The tap of everything, or one of its own for a filter. */
function useFeed(): Feed | null {
  const whole = everything.value;
  const wanted = filter.value;
  const key = JSON.stringify(wanted);
  const isPlain = key === JSON.stringify(NO_FILTER);
  const [own, setOwn] = useState<Feed | null>(null);
  useEffect(() => {
    if (isPlain || !whole) return;
    const feed = new Feed(JSON.parse(key) as Filter);
    feed.seed(whole.rows);
    const timer = setTimeout(() => feed.start(), REST_MS);
    setOwn(feed);
    return () => {
      clearTimeout(timer);
      feed.stop();
      setOwn(null);
    };
  }, [key, whole]);
  return isPlain ? whole : own;
}

function Bar({ feed, shown }: { feed: Feed | null; shown: number }) {
  const set = (change: Partial<Filter>): void => void (filter.value = { ...filter.value, ...change });
  const kinds = filter.value.kinds;
  const toggle = (kind: string): void => set({ kinds: kinds.includes(kind) ? kinds.filter((one) => one !== kind) : [...kinds, kind] });
  const isPaused = pausedAt.value !== null;
  const skipped = feed?.skipped.value ?? 0;
  return (
    <div class="bar" role="toolbar" aria-label="Filter">
      <label class="search">
        <Icon name="search" />
        <input
          data-search
          type="search"
          placeholder="Order.*  or words"
          aria-label="Filter by type or words"
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value.trim();
            set({ types: patterns(text.value) });
          }}
        />
      </label>
      <span class="chips">
        {["command", "query", "event"].map((kind) => (
          <button key={kind} type="button" class="chip" aria-pressed={kinds.includes(kind)} onClick={() => toggle(kind)}>
            {kind}
          </button>
        ))}
        <button type="button" class="chip chip-bad" aria-pressed={filter.value.failed} onClick={() => set({ failed: !filter.value.failed })}>
          failed
        </button>
      </span>
      <select aria-label="Capability" value={filter.value.capabilities[0] ?? ""} onChange={(event) => set({ capabilities: event.currentTarget.value === "" ? [] : [event.currentTarget.value] })}>
        <option value="">every capability</option>
        {actors.value.map(({ capabilityId }) => (
          <option key={capabilityId} value={capabilityId}>
            {clean(capabilityId, 50)}
          </option>
        ))}
      </select>
      <span class="bar-end">
        <span class="hint" title={`The newest ${count(ROWS_MAX)} are kept`}>
          {count(shown)} rows{skipped > 0 ? ` · ${count(skipped)} more passed too fast to show` : ""}
        </span>
        <button type="button" class="button" aria-pressed={isPaused} onClick={togglePause} title="p">
          <Icon name={isPaused ? "play" : "pause"} />
          {isPaused ? "Go on" : "Pause"}
        </button>
        <Action tone="quiet" open onClick={() => feed?.clear()}>
          Clear
        </Action>
      </span>
    </div>
  );
}

function togglePause(): void {
  pausedAt.value = pausedAt.value === null ? (everything.value?.rows.at(-1)?.serial ?? 0) : null;
}

function Line({ row }: { row: Row }) {
  const failed = row.outcome?.kind === "error";
  return (
    <>
      <span class="s-time">{clock(row.at)}</span>
      <Kind kind={row.kind} />
      <span class="s-type">{clean(row.type, 120)}</span>
      <span class="s-way">
        {clean(placeName(row.from), 40)} <i>→</i> {clean(placeName(row.to), 40)}
      </span>
      <span class="s-took">{row.kind === "event" ? "" : micros(row.tookUs)}</span>
      <span class={`s-outcome ${failed ? "tone-bad" : "tone-ok"}`}>{row.kind === "event" ? "" : failed ? (row.outcome?.code ?? "error") : "ok"}</span>
    </>
  );
}

export function Stream() {
  const feed = useFeed();
  const version = feed?.version.value ?? 0;
  const limit = pausedAt.value ?? heldAt.value;
  const seen = useRef({ feed, grown: 0, newest: 0 });
  const rows = useMemo(() => {
    const all = feed?.rows ?? [];
    const found: Row[] = [];
    for (let at = all.length - 1; at >= 0; at--) {
      const row = all[at];
      if (row && (limit === null || row.serial <= limit) && shows(row, text.value) && matches(filter.value, row)) found.push(row);
    }
    const last = seen.current;
    const fresh = found.findIndex((row) => row.serial <= last.newest);
    const grown = last.feed === feed ? last.grown + Math.max(0, fresh) : 0;
    seen.current = { feed, grown, newest: found[0]?.serial ?? last.newest };
    return found;
  }, [feed, version, limit, text.value, filter.value]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (isTyping(event) || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
      if (event.key === "p") togglePause();
      if (event.key === "Escape") chosen.value = null;
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  if (rights.value && !rights.value.operator)
    return (
      <>
        <h1 class="title">Stream</h1>
        <div class="card">
          <Empty icon="stream" title="The stream is for operators">
            <p>It shows the messages of everybody. Give this token the right in mainspring.toml:</p>
            <pre>operator = true</pre>
          </Empty>
        </div>
      </>
    );
  const open = chosen.value;
  return (
    <>
      <header class="head">
        <h1 class="title">Stream</h1>
        <Bar feed={feed} shown={rows.length} />
      </header>
      {feed && feed.refused.value !== "" && (
        <p class="banner tone-bad" role="alert">
          {clean(feed.refused.value, 400)}
        </p>
      )}
      <div class={`split ${open ? "open" : ""}`}>
        <div class="card fill" onPointerMove={hold} onPointerLeave={release}>
          {rows.length === 0 ? (
            <Empty icon="stream" title={text.value !== "" || filter.value !== NO_FILTER ? "Nothing fits" : "Quiet so far"}>
              <p>Commands, queries and events show here as they pass, each with where it went and how it ended.</p>
            </Empty>
          ) : (
            <VirtualList
              label="Messages, newest first"
              rows={rows}
              rowHeight={ROW_HEIGHT}
              id={(row) => String(row.serial)}
              draw={(row) => <Line row={row} />}
              chosen={open ? String(open.serial) : null}
              onChoose={(row) => (chosen.value = row)}
              grows={seen.current.grown}
            />
          )}
        </div>
        {open && (
          <aside class="card inspector" aria-label="The chosen message">
            <button type="button" class="button quiet inspector-close" aria-label="Close" onClick={() => (chosen.value = null)}>
              <Icon name="close" />
            </button>
            <TraceView key={open.id} id={open.id} known={open} />
          </aside>
        )}
      </div>
    </>
  );
}
