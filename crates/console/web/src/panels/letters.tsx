// Dead letters: what could not be delivered or failed for good; put back, edited and put back,
// dropped, one or many.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { command, Problem, query, type Json } from "../data/api.ts";
import { actors, hurry, rights } from "../data/live.ts";
import type { Letter } from "../data/types.ts";
import { ago, clean, count, many } from "../format.ts";
import { Action, attempt, Confirm, Dialog, Empty, Icon, Kind } from "../ui/bits.tsx";
import { JsonView } from "../ui/json.tsx";
import { useRound } from "../ui/rounds.ts";

/** Letters in one list, and in one bulk action. */
const LIMIT = 500;
const BULK = 1000;

const type = signal("");
const capability = signal("");
const reason = signal("");
const marked = signal<Set<number>>(new Set());

interface Letters {
  letters: Letter[];
  total: number;
  dropped: number;
}

type Shown = Letter & { message: { data: Json } };

function filter(): Record<string, Json> {
  return {
    ...(type.value !== "" ? { type: type.value } : {}),
    ...(capability.value !== "" ? { capability: capability.value } : {}),
    ...(reason.value !== "" ? { reason: reason.value } : {}),
  };
}

interface Requeued {
  requeued: { number: number }[];
  refused: { number: number; code: number; message: string }[];
  left: number;
}

/** Those that are marked, or all that fit the filter. */
async function requeue(numbers: number[]): Promise<string> {
  let done = 0;
  let left = 0;
  const refused: string[] = [];
  if (numbers.length > 0) {
    for (const number of numbers) {
      try {
        await command("Sys.DeadLetters", { action: "requeue", number });
        done += 1;
      } catch (error) {
        refused.push((error as Error).message);
      }
    }
  } else {
    const chosen = filter();
    const told = await command<Requeued>("Sys.DeadLetters", { action: "requeue", limit: BULK, ...chosen, ...(Object.keys(chosen).length === 0 ? { all: true } : {}) });
    done = told.requeued.length;
    left = told.left;
    refused.push(...told.refused.map((one) => one.message));
  }
  marked.value = new Set();
  hurry();
  if (refused.length > 0) throw new Error(`${many(done, "letter")} put back, ${refused.length} refused: ${refused[0]}`);
  return `${many(done, "letter")} put back.${left > 0 ? ` ${count(left)} more fit.` : ""}`;
}

async function drop(numbers: number[]): Promise<string> {
  let done = 0;
  if (numbers.length > 0) {
    for (const number of numbers) done += (await command<{ dropped: number }>("Sys.DeadLetters", { action: "drop", number })).dropped;
  } else {
    const chosen = filter();
    done = (await command<{ dropped: number }>("Sys.DeadLetters", { action: "drop", ...chosen, ...(Object.keys(chosen).length === 0 ? { all: true } : {}) })).dropped;
  }
  marked.value = new Set();
  hurry();
  return `${many(done, "letter")} dropped.`;
}

/** A letter with its data, which may be put back with other data. */
function Opened({ letter, onClose }: { letter: Shown; onClose: () => void }) {
  const [text, setText] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const putBack = async (): Promise<void> => {
    let data: Json | undefined;
    try {
      data = text === null ? undefined : (JSON.parse(text) as Json);
    } catch (error) {
      setProblem(`This is no JSON: ${(error as Error).message}`);
      return;
    }
    try {
      await command("Sys.DeadLetters", { action: "requeue", number: letter.number, ...(data === undefined ? {} : { data }) });
      hurry();
      onClose();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <Dialog title={`Dead letter ${letter.number}`} onClose={onClose} wide>
      <div class="dialog-body">
        <p>
          <Kind kind={letter.kind} /> <b>{clean(letter.type, 100)}</b> <span class="quiet">{ago(letter.timestamp)}</span>
        </p>
        <p class="tone-bad">{clean(letter.reason, 600)}</p>
        {text === null ? (
          <JsonView value={letter.message.data} label="the data" />
        ) : (
          <label>
            Data
            <textarea rows={12} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
          </label>
        )}
        {problem !== "" && (
          <p class="tone-bad" role="alert">
            {clean(problem, 600)}
          </p>
        )}
      </div>
      <footer>
        {text === null && (
          <Action onClick={() => setText(JSON.stringify(letter.message.data, null, 2))}>Edit</Action>
        )}
        <Action tone="main" onClick={() => void putBack()}>
          {text === null ? "Put back" : "Put back as edited"}
        </Action>
      </footer>
    </Dialog>
  );
}

function exportAll(letters: Letter[]): void {
  void attempt("Not exported", async () => {
    const lines: string[] = [];
    for (const { number } of letters) {
      try {
        lines.push(JSON.stringify(await query<Json>("Sys.DeadLetters", { action: "show", number })));
      } catch (error) {
        // One that was put back or dropped since it was listed is not among them.
        if (!(error instanceof Problem && error.status === 404)) throw error;
      }
    }
    const url = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "application/x-ndjson" }));
    const anchor = document.createElement("a");
    anchor.href = url;
    anchor.download = "dead-letters.ndjson";
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    return `${many(lines.length, "letter")} exported.`;
  });
}

function Filters() {
  return (
    <>
      <label class="search">
        <Icon name="search" />
        <input data-search type="search" aria-label="Words of the reason" placeholder="words of the reason" value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} />
      </label>
      <input class="narrow" type="text" aria-label="Type" placeholder="Order.*" value={type.value} onInput={(event) => (type.value = event.currentTarget.value.trim())} />
      <select aria-label="Capability" value={capability.value} onChange={(event) => (capability.value = event.currentTarget.value)}>
        <option value="">every capability</option>
        {actors.value.map(({ capabilityId }) => (
          <option key={capabilityId} value={capabilityId}>
            {clean(capabilityId, 50)}
          </option>
        ))}
      </select>
    </>
  );
}

function Table({ letters, onOpen }: { letters: Letter[]; onOpen: (letter: Letter) => void }) {
  const toggle = (number: number): void => {
    const next = new Set(marked.value);
    if (!next.delete(number)) next.add(number);
    marked.value = next;
  };
  const all = letters.length > 0 && letters.every(({ number }) => marked.value.has(number));
  return (
    <table class="rows stack">
      <thead>
        <tr>
          <th class="mark">
            <input type="checkbox" aria-label="Mark all" checked={all} onChange={() => (marked.value = all ? new Set() : new Set(letters.map(({ number }) => number)))} />
          </th>
          <th>Type</th>
          <th>Capability</th>
          <th>Reason</th>
          <th class="number">Attempts</th>
          <th class="number">When</th>
        </tr>
      </thead>
      <tbody>
        {letters.map((letter) => (
          <tr key={letter.number} class={marked.value.has(letter.number) ? "chosen" : ""}>
            <td class="mark">
              <input type="checkbox" aria-label={`Mark letter ${letter.number}`} checked={marked.value.has(letter.number)} onChange={() => toggle(letter.number)} />
            </td>
            <td class="name">
              <button type="button" class="link-button" onClick={() => onOpen(letter)}>
                <Kind kind={letter.kind} />
                {clean(letter.type, 80)}
              </button>
            </td>
            <td data-label="Capability">{clean(letter.capabilityId ?? "–", 40)}</td>
            <td class="reason">{clean(letter.reason, 240)}</td>
            <td class="number" data-label="Attempts">
              {count(letter.attempts)}
            </td>
            <td class="number quiet">{ago(letter.timestamp)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function DeadLetters() {
  const { data, problem } = useRound<Letters>("Sys.DeadLetters", { action: "list", limit: LIMIT, ...filter() });
  const [opened, setOpened] = useState<Shown | null>(null);
  const [dropping, setDropping] = useState(false);
  const letters = data?.letters ?? [];
  const numbers = [...marked.value].filter((number) => letters.some((letter) => letter.number === number));
  const amount = Object.keys(filter()).length > 0 ? "all that fit" : `all ${count(data?.total ?? 0)}`;
  const what = numbers.length > 0 ? `${numbers.length} marked` : letters.length === 0 ? "all" : amount;
  const open = (letter: Letter): void =>
    void query<Shown>("Sys.DeadLetters", { action: "show", number: letter.number }).then(setOpened, () => hurry());
  if (rights.value?.operator === false)
    return (
      <>
        <h1 class="title">Dead letters</h1>
        <div class="card">
          <Empty icon="letters" title="Dead letters are for operators">
            <p>They hold the messages of everybody.</p>
          </Empty>
        </div>
      </>
    );
  return (
    <>
      <header class="head">
        <h1 class="title">Dead letters</h1>
        <div class="bar" role="toolbar" aria-label="Dead letters">
          <Filters />
          <span class="bar-end">
            <Action disabled={letters.length === 0} onClick={() => void attempt("Put back in part", () => requeue(numbers))}>
              <Icon name="again" /> Put back {what}
            </Action>
            <Action tone="bad" disabled={letters.length === 0} onClick={() => setDropping(true)}>
              Drop {what}
            </Action>
            <Action tone="quiet" disabled={letters.length === 0} onClick={() => exportAll(letters)}>
              Export
            </Action>
          </span>
        </div>
      </header>
      {problem && (
        <p class="banner tone-warn" role="alert">
          {clean(problem.message, 300)}
        </p>
      )}
      <div class="card scroll-x" tabIndex={0} role="region" aria-label="All dead letters">
        {letters.length === 0 ? (
          <Empty icon="check" title={Object.keys(filter()).length > 0 ? "None fits" : "No dead letters"}>
            <p>What cannot be delivered, and what failed for good, is kept here until you put it back or drop it.</p>
          </Empty>
        ) : (
          <Table letters={letters} onOpen={open} />
        )}
      </div>
      {data && data.total > letters.length && letters.length > 0 && (
        <p class="hint">
          {count(letters.length)} of {count(data.total)}.
        </p>
      )}
      {dropping && (
        <Confirm title={`Drop ${what}?`} action="Drop" onConfirm={() => void attempt("Not dropped", () => drop(numbers))} onClose={() => setDropping(false)}>
          <p>They cannot be had back. Export them first if you may need them.</p>
        </Confirm>
      )}
      {opened && <Opened key={opened.number} letter={opened} onClose={() => setOpened(null)} />}
    </>
  );
}
