// One trace: causes as a tree, with a waterfall in which waiting and working are told apart, and
// the data of one message.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Problem, query, send, type Json, type Kind } from "../data/api.ts";
import { hurry } from "../data/live.ts";
import { everything, isLacking, placeName, withSeen } from "../data/tap.ts";
import type { Node, Trace } from "../data/types.ts";
import { bytes, clean, clock, micros, plainJson, shellWord } from "../format.ts";
import { go, href, route } from "../route.ts";
import { Action, attempt, copy, Empty, Icon, Kind as KindBadge } from "../ui/bits.tsx";
import { JsonView } from "../ui/json.tsx";

interface Branch {
  node: Node;
  depth: number;
  /** Whether it is the last one of its parent, for each of its ancestors. */
  at: number;
}

/** Nodes in the order of the tree. What caused one may be a message or its outcome. */
export function tree(nodes: Node[]): Branch[] {
  const owner = new Map<string, string>();
  for (const node of nodes) {
    owner.set(node.id, node.id);
    if (node.outcome) owner.set(node.outcome.id, node.id);
  }
  const children = new Map<string, Node[]>();
  const roots: Node[] = [];
  for (const node of nodes) {
    const parent = node.causation === null ? undefined : owner.get(node.causation);
    if (parent === undefined || parent === node.id) roots.push(node);
    else children.set(parent, [...(children.get(parent) ?? []), node]);
  }
  const found: Branch[] = [];
  const seen = new Set<string>();
  const walk = (node: Node, depth: number): void => {
    if (seen.has(node.id)) return;
    seen.add(node.id);
    found.push({ node, depth, at: node.atUs ?? 0 });
    for (const child of children.get(node.id) ?? []) walk(child, depth + 1);
  };
  for (const root of roots) walk(root, 0);
  return found;
}

function Waterfall({ branch, whole }: { branch: Branch; whole: number }) {
  const { node } = branch;
  const share = (us: number): string => `${Math.min(100, (us / whole) * 100)}%`;
  const waited = node.waitedUs ?? 0;
  const took = node.tookUs ?? 0;
  const tone = node.outcome?.kind === "error" ? "bad" : node.outcome === null ? "busy" : "ok";
  return (
    <span class="fall">
      <i class="fall-line" />
      {node.kind === "event" ? (
        <i class="fall-event" style={{ left: share(branch.at) }} />
      ) : (
        <>
          <i class="fall-wait" style={{ left: share(branch.at), width: share(waited) }} />
          <i class={`fall-work fall-${tone}`} style={{ left: share(branch.at + waited), width: share(took - waited) }} />
        </>
      )}
    </span>
  );
}

function spoken(node: Node): string {
  if (node.kind === "event") return "event";
  const waited = micros(node.waitedUs);
  const worked = micros((node.tookUs ?? 0) - (node.waitedUs ?? 0));
  const end = node.outcome === null ? "unfinished" : node.outcome?.kind === "error" ? `error ${node.outcome.code ?? ""}` : "reply";
  return `waited ${waited}, worked ${worked}, ${end}`;
}

function TreeTable({ branches, whole, chosen, onChoose }: { branches: Branch[]; whole: number; chosen: string; onChoose: (id: string) => void }) {
  return (
    <table class="rows tree">
      <thead>
        <tr>
          <th>Message</th>
          <th class="tree-to">To</th>
          <th class="tree-fall">
            <span class="axis" aria-hidden="true">
              <i>0</i>
              <i>{micros(whole / 2)}</i>
              <i>{micros(whole)}</i>
            </span>
            <span class="visually-hidden">When</span>
          </th>
          <th class="number">Took</th>
        </tr>
      </thead>
      <tbody>
        {branches.map((branch) => {
          const { node, depth } = branch;
          return (
            <tr key={node.id} class={node.id === chosen ? "chosen" : ""} onClick={() => onChoose(node.id)}>
              <td class="name" style={{ paddingLeft: `${14 + Math.min(depth, 12) * 18}px` }}>
                {depth > 0 && <i class="twig" />}
                <button type="button" class="link-button" aria-pressed={node.id === chosen} title={spoken(node)}>
                  <KindBadge kind={node.kind} />
                  <span class="cut">{clean(node.type, 80)}</span>
                  <span class="visually-hidden">{spoken(node)}</span>
                </button>
              </td>
              <td class="tree-to">{clean(placeName(node.to), 40)}</td>
              <td class="tree-fall">
                <Waterfall branch={branch} whole={whole} />
              </td>
              <td class={`number ${node.outcome?.kind === "error" ? "tone-bad" : ""}`}>
                {node.kind === "event" ? "" : node.outcome === null ? "unfinished" : micros(node.tookUs)}
                {(node.attempts ?? 0) > 1 && <small> ×{node.attempts}</small>}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function NoData({ size }: { size: number | undefined }) {
  return (
    <p class="no-data">
      {size === undefined ? (
        <>
          Not kept. <code>limits.history_data_bytes_max</code> keeps the data of late messages.
        </>
      ) : (
        <>
          {bytes(size)}: more than <code>limits.tap_data_bytes_max</code> shows.
        </>
      )}
    </p>
  );
}

function commandLine(node: Node): string {
  const verb = node.kind === "query" ? "query" : node.kind === "event" ? "emit" : "send";
  return `mainspring ${verb} ${shellWord(node.type)} ${shellWord(plainJson(node.data ?? {}))}`;
}

function curlLine(node: Node): string {
  const path = { command: "commands", query: "queries", event: "events" }[node.kind];
  const data = shellWord(plainJson(node.data ?? {}));
  return `curl -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' ${location.origin}/v1/${path}/${encodeURIComponent(node.type)} -d ${data}`;
}

async function runAgain(node: Node): Promise<void> {
  const from = route.value;
  await attempt("Not run again", async () => {
    try {
      const answer = await send(node.kind as Kind, node.type, (node.data ?? {}) as Json);
      // Who went elsewhere meanwhile is left there.
      if (answer.id !== "" && route.value === from) go("traces", answer.id);
    } finally {
      hurry();
    }
    return `Sent ${node.type} again.`;
  });
}

function Details({ node }: { node: Node }) {
  const hasData = node.data !== undefined;
  return (
    <section class="details" aria-label="The chosen message">
      <header>
        <div>
          <h3>{clean(node.type, 120)}</h3>
          <p class="hint">
            {clean(placeName(node.from), 60)} → {clean(placeName(node.to), 60)}
            {node.kind === "event" ? "" : ` · ${spoken(node)}`}
          </p>
        </div>
        <span class="buttons">
          <Action open disabled={!hasData} title="The same data under a fresh id" onClick={() => void runAgain(node)}>
            <Icon name="again" /> Run again
          </Action>
          <Action open tone="quiet" disabled={!hasData} onClick={() => void copy(commandLine(node), "the command")}>
            <Icon name="copy" /> Command
          </Action>
          <Action open tone="quiet" disabled={!hasData} onClick={() => void copy(curlLine(node), "the curl line")}>
            <Icon name="copy" /> curl
          </Action>
        </span>
      </header>
      <div class="sides">
        <div>
          <h4>{node.kind === "event" ? "Event" : "Request"}</h4>
          {hasData ? <JsonView value={node.data as Json} label="the request" /> : <NoData size={node.dataBytes} />}
        </div>
        {node.kind !== "event" && (
          <div>
            <h4 class={node.outcome?.kind === "error" ? "tone-bad" : ""}>{node.outcome ? (node.outcome.kind === "error" ? `Error ${node.outcome.code ?? ""}` : "Reply") : "No outcome yet"}</h4>
            {node.outcome?.data !== undefined ? <JsonView value={node.outcome.data} label="the outcome" /> : node.outcome ? <NoData size={node.outcome.dataBytes} /> : null}
          </div>
        )}
      </div>
      <dl class="facts">
        <div>
          <dt>id</dt>
          <dd>{clean(node.id, 120)}</dd>
        </div>
        {node.correlation !== null && (
          <div>
            <dt>correlation</dt>
            <dd>
              <a href={href("traces", `~${node.correlation}`)}>{clean(node.correlation, 120)}</a>
            </dd>
          </div>
        )}
      </dl>
    </section>
  );
}

interface TraceProps {
  /** A message, or `~` and a correlation. */
  id: string;
  /** What is known of the message already. */
  known?: Node;
}

export function TraceView({ id, known }: TraceProps) {
  const [trace, setTrace] = useState<Trace | null>(null);
  const [problem, setProblem] = useState("");
  const [chosen, setChosen] = useState(id);
  useEffect(() => {
    let isOpen = true;
    const asked: Json = id.startsWith("~") ? { correlation: id.slice(1) } : { id };
    const ask = (): void =>
      void query<Trace>("Sys.Trace", asked).then(
        (found) => {
          if (!isOpen) return;
          setTrace(found);
          setProblem("");
          if (found.nodes.some((node) => node.outcome === null)) timer = setTimeout(ask, 1000);
        },
        (error: unknown) => {
          if (isOpen) setProblem(error instanceof Problem ? error.message : "The daemon does not answer.");
        },
      );
    let timer: ReturnType<typeof setTimeout> | undefined;
    ask();
    return () => {
      isOpen = false;
      clearTimeout(timer);
    };
  }, [id]);
  const bare = useMemo(() => (trace && trace.nodes.length > 0 ? trace.nodes : known ? [{ ...known, atUs: 0 }] : []), [trace, known]);
  // The tap may tell the data a little later than the history tells the message.
  const seen = bare.some(isLacking) ? (everything.value?.version.value ?? 0) : 0;
  const nodes = useMemo(() => withSeen(bare), [bare, seen]);
  if (nodes.length === 0)
    return problem === "" && !trace ? (
      <p class="hint pad">Looking…</p>
    ) : (
      <Empty icon="traces" title="No trace">
        <p>{problem === "" ? "Nothing of it is in the history any more." : clean(problem, 300)}</p>
      </Empty>
    );
  const branches = tree(nodes);
  const whole = Math.max(1, ...branches.map(({ node, at }) => at + (node.tookUs ?? 0)));
  const node = nodes.find((one) => one.id === chosen) ?? branches[0]?.node;
  return (
    <div class="trace">
      <header class="trace-head">
        <h2>
          {branches.length === 1 ? "One message" : `${branches.length} messages`} in {micros(whole)}
        </h2>
        <p class="hint">
          {clock(trace?.startedAt ?? known?.at ?? 0)}
          {trace && trace.leftOut > 0 ? ` · ${trace.leftOut} left out` : ""}
        </p>
        <p class="fall-key" aria-hidden="true">
          <i class="fall-wait" /> waited <i class="fall-work fall-ok" /> worked
        </p>
      </header>
      <TreeTable branches={branches} whole={whole} chosen={node?.id ?? ""} onChoose={setChosen} />
      {node && <Details node={node} />}
    </div>
  );
}
