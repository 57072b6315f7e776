// The latest workflows, and the one that is open.

import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import { placeName, withSeen } from "../data/tap.ts";
import type { Node, Trace } from "../data/types.ts";
import { clean, clock, micros, many } from "../format.ts";
import { go, route } from "../route.ts";
import { Empty, Icon, Kind } from "../ui/bits.tsx";
import { useRound } from "../ui/rounds.ts";
import { VirtualList } from "../ui/virtual.tsx";
import { TraceView } from "./trace.tsx";

const ROW_HEIGHT = 46;
const ROOTS = 200;

const failed = signal(false);
const type = signal("");

function isPattern(text: string): boolean {
  return text === "*" || /^[A-Za-z][\w-]*(\.[\w-]+)*\.(\*|[\w-]+)$/.test(text);
}

function Root({ node, startedAt }: { node: Node; startedAt: number }) {
  const isBad = node.outcome?.kind === "error";
  return (
    <div class="root">
      <span class="root-top">
        <Kind kind={node.kind} />
        <b>{clean(node.type, 80)}</b>
        <span class={isBad ? "tone-bad" : "quiet"}>{isBad ? (node.outcome?.code ?? "error") : node.kind === "event" ? "" : micros(node.tookUs)}</span>
      </span>
      <span class="root-under">
        {clock(startedAt + (node.atUs ?? 0) / 1000)} · {clean(placeName(node.from), 30)} → {clean(placeName(node.to), 30)} · {many(node.messages ?? 1, "message")}
      </span>
    </div>
  );
}

export function Traces() {
  const asked = { latest: ROOTS, ...(failed.value ? { failed: true } : {}), ...(isPattern(type.value) ? { type: type.value } : {}) };
  const { data, problem } = useRound<Trace>("Sys.Trace", asked);
  const open = route.value.item;
  // The list stands still while somebody points at it: rows that move cannot be hit.
  const [held, setHeld] = useState<Trace | null>(null);
  const shown = held ?? data;
  const startedAt = shown?.startedAt ?? 0;
  const nodes = useMemo(() => withSeen(shown?.nodes ?? []), [shown]);
  return (
    <>
      <header class="head">
        <h1 class="title">Traces</h1>
        <div class="bar" role="toolbar" aria-label="Filter">
        <label class="search">
          <Icon name="search" />
          <input data-search type="search" aria-label="Filter by type" placeholder="Order.*" value={type.value} onInput={(event) => (type.value = event.currentTarget.value.trim())} />
        </label>
        <button type="button" class="chip chip-bad" aria-pressed={failed.value} onClick={() => (failed.value = !failed.value)}>
          failed
        </button>
        </div>
      </header>
      {problem && (
        <p class="banner tone-warn" role="alert">
          {clean(problem.message, 300)}
        </p>
      )}
      <div class={`split traces ${open !== "" ? "open" : ""}`}>
        <div class="card fill" onPointerMove={() => setHeld((old) => old ?? data)} onPointerLeave={() => setHeld(null)}>
          {nodes.length === 0 ? (
            <Empty icon="traces" title="Nothing in the history">
              <p>Every message that nothing else caused starts a trace. The latest show here.</p>
            </Empty>
          ) : (
            <VirtualList
              label="The latest traces"
              rows={nodes}
              rowHeight={ROW_HEIGHT}
              id={(node) => node.id}
              draw={(node) => <Root node={node} startedAt={startedAt} />}
              chosen={open}
              onChoose={(node) => go("traces", node.id)}
              grows={0}
            />
          )}
        </div>
        <div class="card inspector">
          {open !== "" && (
            <button type="button" class="button quiet inspector-close" aria-label="Close" onClick={() => go("traces")}>
              <Icon name="close" />
            </button>
          )}
          {open === "" ? (
            <Empty icon="traces" title="Choose a trace">
              <p>You see what it caused, in order, and where the time went: waiting in a mailbox, or working.</p>
            </Empty>
          ) : (
            <TraceView key={open} id={open} />
          )}
        </div>
      </div>
    </>
  );
}
