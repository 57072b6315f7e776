// Call: any type of the catalogue, with a form made from its schema.

import { signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Problem, query, send, type Answer, type Json, type Kind } from "../data/api.ts";
import { catalogue, hurry, rights } from "../data/live.ts";
import { covers } from "../data/tap.ts";
import type { Handler } from "../data/types.ts";
import { clean, micros } from "../format.ts";
import { go, href, route } from "../route.ts";
import { Empty, Icon, Kind as KindBadge } from "../ui/bits.tsx";
import { JsonView } from "../ui/json.tsx";
import { Field, JsonField } from "./form.tsx";
import { complaints, initial, plain, shape, type Complaints, type Schema } from "./schema.ts";

const PAST = "mainspring.calls";
const PAST_MAX = 20;
/** Types that are listed at most. */
const LISTED_MAX = 400;

const search = signal("");

interface Entry {
  type: string;
  kinds: Kind[];
  owner: string;
  about: string;
}

function entries(): Entry[] {
  const found = new Map<string, Entry>();
  for (const capability of catalogue.value?.capabilities ?? []) {
    for (const { kind, type } of capability.handles) {
      const there = found.get(type);
      if (there) there.kinds.push(kind);
      else found.set(type, { type, kinds: [kind], owner: capability.id, about: capability.description });
    }
  }
  const own = [...found.values()].sort((a, b) => a.type.localeCompare(b.type));
  const builtins = (catalogue.value?.builtins ?? []).map((builtin) => ({ type: builtin.type, kinds: builtin.kinds, owner: "mainspring", about: builtin.description }));
  return [...own, ...builtins];
}

function found(): Entry[] {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (entry: Entry): boolean => {
    const all = `${entry.type} ${entry.owner} ${entry.about}`.toLowerCase();
    return words.every((word) => all.includes(word));
  };
  const ranked = entries().filter(fits);
  // What has the words in its name comes before what only speaks of them.
  const inName = (entry: Entry): boolean => words.every((word) => entry.type.toLowerCase().includes(word));
  return [...ranked.filter(inName), ...ranked.filter((entry) => !inName(entry))].slice(0, LISTED_MAX);
}

interface PastCall {
  type: string;
  kind: Kind;
  data: Json;
  at: number;
}

function past(): PastCall[] {
  try {
    return JSON.parse(sessionStorage.getItem(PAST) ?? "[]") as PastCall[];
  } catch {
    return [];
  }
}

function remember(call: PastCall): void {
  const others = past().filter((one) => one.type !== call.type || JSON.stringify(one.data) !== JSON.stringify(call.data));
  try {
    sessionStorage.setItem(PAST, JSON.stringify([call, ...others].slice(0, PAST_MAX)));
  } catch {
    // A page without room to remember works all the same.
  }
}

function Catalogue({ open }: { open: string }) {
  const list = found();
  return (
    <div class="card fill catalogue">
      <label class="search pad">
        <Icon name="search" />
        <input data-search type="search" placeholder="Search the catalogue" aria-label="Search the catalogue" value={search.value} onInput={(event) => (search.value = event.currentTarget.value)} />
      </label>
      {list.length === 0 ? (
        <Empty icon="search" title="Nothing is called that" />
      ) : (
        <ul>
          {list.map((entry) => (
            <li key={`${entry.owner} ${entry.type}`}>
              <a href={href("call", entry.type)} aria-current={open === entry.type ? "true" : undefined}>
                <b>{clean(entry.type, 80)}</b>
                <span>
                  {entry.kinds.map((kind) => (
                    <KindBadge key={kind} kind={kind} />
                  ))}
                  <i>{clean(entry.owner, 40)}</i>
                </span>
              </a>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

type Result = { answer: Answer } | { problem: Problem | Error };

function ResultView({ result }: { result: Result }) {
  if ("answer" in result) {
    const { answer } = result;
    return (
      <section class="result" aria-label="Reply" aria-live="polite">
        <header>
          <h3 class="tone-ok">
            <Icon name="check" /> Reply
          </h3>
          <span class="hint">{micros(answer.tookMs * 1000)}, seen from here</span>
          {answer.id !== "" && <a href={href("traces", answer.id)}>Trace</a>}
        </header>
        <JsonView value={answer.data} label="the reply" />
      </section>
    );
  }
  const { problem } = result;
  const more = problem instanceof Problem ? problem.more : {};
  return (
    <section class="result" aria-label="Error" role="alert">
      <header>
        <h3 class="tone-bad">
          <Icon name="warn" /> {problem instanceof Problem ? `${problem.status} ${clean(problem.type, 60)}` : "Not sent"}
        </h3>
        {typeof more.originalId === "string" && <a href={href("traces", more.originalId)}>Trace</a>}
      </header>
      <p>{clean(problem.message, 800)}</p>
      {typeof more.started === "string" && <p class="hint">{more.started === "no" ? "No capability had it: sending it again is safe." : "A capability had begun with it."}</p>}
    </section>
  );
}

function HintsLine({ handler }: { handler: Handler }) {
  const { hints } = handler;
  if (!hints) return null;
  const words = [hints.readOnly ? "changes nothing" : hints.destructive ? "may undo or delete" : "changes something", hints.idempotent && !hints.readOnly ? "done twice is done once" : "", handler.deprecated ? "deprecated" : ""];
  return <p class={`hint ${hints.destructive ? "tone-warn" : ""}`}>{words.filter(Boolean).join(" · ")}</p>;
}

function Caller({ handler, start }: { handler: Handler; start: Json | undefined }) {
  const schema = useMemo(() => plain((handler.input ?? true) as Schema | boolean), [handler]);
  const canForm = shape(schema) !== "any";
  const [value, setValue] = useState<Json | undefined>(() => start ?? handler.examples?.[0] ?? initial(schema));
  const [asJson, setAsJson] = useState(!canForm);
  const [wrong, setWrong] = useState<Complaints>(new Map());
  const [result, setResult] = useState<Result | null>(null);
  const [busy, setBusy] = useState<AbortController | null>(null);
  const may = rights.value === null || rights.value.allow.some((pattern) => covers(pattern, handler.name)) || handler.capability === undefined;
  const submit = async (event?: Event): Promise<void> => {
    event?.preventDefault();
    const abort = new AbortController();
    setBusy(abort);
    setWrong(new Map());
    const data = value ?? null;
    try {
      const answer = await send(handler.kind, handler.name, data, abort.signal);
      setResult({ answer });
      remember({ type: handler.name, kind: handler.kind, data, at: Date.now() });
    } catch (error) {
      if (abort.signal.aborted) setResult({ problem: new Error("Cancelled.") });
      else {
        setResult({ problem: error as Error });
        if (error instanceof Problem && error.status === 422) setWrong(complaints(error.message));
      }
    }
    setBusy(null);
    hurry();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void submit(event);
  };
  return (
    <form class="caller" onSubmit={(event) => void submit(event)} onKeyDown={onKeyDown}>
      <header class="detail-head">
        <div>
          <h2>
            {clean(handler.name, 100)} <KindBadge kind={handler.kind} />
          </h2>
          <p>{clean(handler.description, 500)}</p>
          <HintsLine handler={handler} />
        </div>
        {canForm && (
          <span class="chips">
            <button type="button" class="chip" aria-pressed={!asJson} onClick={() => setAsJson(false)}>
              Form
            </button>
            <button type="button" class="chip" aria-pressed={asJson} onClick={() => setAsJson(true)}>
              JSON
            </button>
          </span>
        )}
      </header>
      <div class="fields">
        {asJson ? (
          <JsonField id="data" label="Data as JSON" rows={10} value={value} onChange={setValue} />
        ) : (
          <Field schema={schema} value={value} path="data" name="data" required complaints={wrong} depth={0} onChange={setValue} />
        )}
        {!asJson && shape(schema) === "object" && Object.keys((schema as Schema).properties ?? {}).length === 0 && <p class="hint">It takes no data.</p>}
        {wrong.has("data") && shape(schema) === "object" && (
          <p class="complaint" role="alert">
            {clean(wrong.get("data"), 300)}
          </p>
        )}
      </div>
      <div class="submit">
        <button type="submit" class="button main" disabled={busy !== null || !may} title={may ? "Ctrl+Enter" : `This token may send ${rights.value?.allow.join(", ")}`}>
          {handler.kind === "query" ? "Ask" : handler.kind === "event" ? "Emit" : "Send"}
        </button>
        {busy && (
          <button type="button" class="button" onClick={() => busy.abort()}>
            Cancel
          </button>
        )}
        {!may && <span class="hint">This token may not send {clean(handler.name, 60)}.</span>}
      </div>
      {result && <ResultView result={result} />}
    </form>
  );
}

function Past({ onChoose }: { onChoose: (call: PastCall) => void }) {
  const calls = past();
  if (calls.length === 0) return null;
  return (
    <section class="past" aria-label="Sent before">
      <h3>Sent before</h3>
      <ul>
        {calls.slice(0, 8).map((call, at) => (
          <li key={at}>
            <button type="button" class="link-button" onClick={() => onChoose(call)}>
              <KindBadge kind={call.kind} />
              {clean(call.type, 60)} <i>{clean(JSON.stringify(call.data), 70)}</i>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function Call() {
  const open = route.value.item;
  const [handlers, setHandlers] = useState<Handler[]>([]);
  const [kind, setKind] = useState<Kind | null>(null);
  const [start, setStart] = useState<{ data: Json; serial: number } | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    setHandlers([]);
    setProblem("");
    setKind(null);
  }, [open]);
  useEffect(() => {
    if (open === "") return;
    let isOpen = true;
    query<{ handlers: Handler[] }>("Syscall.Describe", { type: open }).then(
      // What somebody has filled in stays while the schema does, whoever is restarted meanwhile.
      ({ handlers: told }) => void (isOpen && setHandlers((old) => (JSON.stringify(old) === JSON.stringify(told) ? old : told))),
      (error: Error) => void (isOpen && setProblem(error.message)),
    );
    return () => {
      isOpen = false;
    };
  }, [open, catalogue.value]);
  const handler = handlers.find((one) => one.kind === kind) ?? handlers[0];
  const choose = (call: PastCall): void => {
    setStart((old) => ({ data: call.data, serial: (old?.serial ?? 0) + 1 }));
    if (call.type !== open) go("call", call.type);
    setKind(call.kind);
  };
  return (
    <>
      <h1 class="title">Call</h1>
      <div class={`split call ${open !== "" ? "open" : ""}`}>
        <Catalogue open={open} />
        <div class="card pad inspector">
          {open !== "" && (
            <button type="button" class="button quiet inspector-close" aria-label="Close" onClick={() => go("call")}>
              <Icon name="close" />
            </button>
          )}
          {open === "" && (
            <Empty icon="call" title="Choose what to send">
              <p>Everything that this daemon takes is in the list, with a form made from its schema.</p>
            </Empty>
          )}
          {problem !== "" && <Empty icon="call" title={clean(problem, 200)} />}
          {handlers.length > 1 && (
            <span class="chips kinds">
              {handlers.map((one) => (
                <button key={one.kind} type="button" class="chip" aria-pressed={one === handler} onClick={() => setKind(one.kind)}>
                  as {one.kind}
                </button>
              ))}
            </span>
          )}
          {handler && <Caller key={`${handler.kind} ${handler.name} ${start?.serial ?? 0}`} handler={handler} start={start?.data} />}
          <Past onChoose={choose} />
        </div>
      </div>
    </>
  );
}
