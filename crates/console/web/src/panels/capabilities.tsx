// The capabilities: how each one is, why, its last words, and what can be done about it.

import { useEffect, useRef, useState } from "preact/hooks";
import { command } from "../data/api.ts";
import { actors, askEachRound, catalogue, hurry, isSick, mayOperate, rates, restarted, stats } from "../data/live.ts";
import type { Actor, LogLine } from "../data/types.ts";
import { ago, bytes, clean, clockShort, count, many, millis, nanos, percent, rate } from "../format.ts";
import { go, href, route } from "../route.ts";
import { Action, attempt, Confirm, Empty, Icon, Kind, State } from "../ui/bits.tsx";
import { verdict } from "./awake.ts";

const LINES_MAX = 500;

/** A line that the daemon quotes, without its quotes. */
const unquoted = (line: string): string => (/^".*"$/s.test(line) ? line.slice(1, -1) : line);

/** How an actor is, in a sentence. */
function situation(actor: Actor): string {
  const since = millis(actor.sinceMs);
  switch (actor.state) {
    case "up":
      return actor.overdue > 0 ? `Up for ${since}, but ${many(actor.overdue, "request")} timed out and it has not answered them.` : `Up for ${since}.`;
    case "backoff":
      return `It failed and is started again shortly (${many(actor.restartsInWindow, "restart")} of late).`;
    case "unhealthy":
      return actor.probeInMs == null ? "It failed too often and is not tried again by itself." : `It failed too often. It is tried again in ${millis(actor.probeInMs)}.`;
    case "starting":
      return `Starting since ${since}.`;
    case "retiring":
      return "It finishes what it has; the next incarnation follows.";
    case "stopped":
      return "It ended, as it may.";
    default:
      return `${actor.state} since ${since}.`;
  }
}

function Table({ list, open }: { list: Actor[]; open: string }) {
  const per = rates.value;
  return (
    <table class="rows clickable">
      <thead>
        <tr>
          <th>Capability</th>
          <th>State</th>
          <th class="more">Runs as</th>
          <th class="number">Handled</th>
          <th class="number more">In flight</th>
          <th class="number">Mailbox</th>
          <th class="number more">p50</th>
          <th class="number end">p99</th>
          <th class="number more">Restarts</th>
          <th class="number more">Faults</th>
          <th class="number more">CPU</th>
          <th class="number more">Memory</th>
        </tr>
      </thead>
      <tbody>
        {list.map((actor) => {
          const id = actor.capabilityId;
          return (
            <tr key={id} class={open === id ? "chosen" : ""} onClick={() => go("capabilities", id)}>
              <td class="name">
                <a href={href("capabilities", id)} aria-current={open === id ? "true" : undefined}>
                  {clean(id, 60)}
                </a>
              </td>
              <td>
                <State state={actor.state} />
              </td>
              <td class="quiet more">{clean(actor.program ?? "native", 12)}</td>
              <td class="number">{rate(per?.handled.get(id) ?? 0)}/s</td>
              <td class="number more">{count(actor.inFlight)}</td>
              <td class={`number ${actor.blocked ? "tone-bad" : ""}`}>{count(actor.mailbox)}</td>
              <td class="number more">{nanos(actor.latencyNs?.p50)}</td>
              <td class="number end">{nanos(actor.latencyNs?.p99)}</td>
              <td class={`number more ${actor.restartsInWindow > 0 ? "tone-warn" : ""}`}>{count(Math.max(0, actor.incarnation - 1))}</td>
              <td class={`number more ${actor.faults > 0 ? "tone-bad" : ""}`}>{count(actor.faults)}</td>
              <td class="number more">{actor.cpuMs === undefined ? "–" : percent(per?.cpu.get(id) ?? 0)}</td>
              <td class="number more">{bytes(actor.memoryBytes)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Actions({ actor }: { actor: Actor }) {
  const [asking, setAsking] = useState(false);
  const id = actor.capabilityId;
  const restart = (): void =>
    void attempt("Not restarted", async () => {
      await command("Sys.RestartActor", { capability: id });
      hurry();
      return `${id} finishes what it has, and starts anew.`;
    });
  const reset = (): void =>
    void attempt("Not reset", async () => {
      await command("Sys.ResetActor", { capabilityId: id });
      hurry();
      return `The failures of ${id} are forgotten, and it starts now.`;
    });
  return (
    <span class="buttons">
      {isSick(actor) && actor.state !== "up" && (
        <Action tone="main" onClick={reset}>
          Start now
        </Action>
      )}
      <Action onClick={() => setAsking(true)} title="It takes nothing new, finishes what it has, then the next incarnation starts">
        <Icon name="again" /> Restart
      </Action>
      {asking && (
        <Confirm title={`Restart ${clean(id, 60)}?`} action="Restart" onConfirm={restart} onClose={() => setAsking(false)}>
          <p>
            It finishes {many(actor.inFlight, "request")} that it has. {many(actor.mailbox, "message")} in its mailbox go to the next incarnation.
          </p>
        </Confirm>
      )}
    </span>
  );
}

/** The lines on standard error, followed while they are open. */
function Logs({ id }: { id: string }) {
  const [lines, setLines] = useState<LogLine[]>([]);
  const [forgotten, setForgotten] = useState(0);
  const place = useRef<HTMLPreElement>(null);
  /** Whether the end is in sight: then it stays there. */
  const follows = useRef(true);
  useEffect(() => {
    let after = 0;
    return askEachRound(
      () => ["Sys.Logs", { capability: id, lines: 200, ...(after > 0 ? { after } : {}) }],
      (told) => {
        if (!told.ok) return;
        const { lines: fresh, forgotten: gone } = told.data as { lines: LogLine[]; forgotten: number };
        // Two rounds may have asked the same; and numbers begin anew with a daemon that was
        // restarted.
        const news = fresh.filter(({ number }) => number > after);
        if (news.length > 0) setLines((old) => [...old, ...news].slice(-LINES_MAX));
        if (after > 0 && gone > 0) setForgotten((old) => old + gone);
        after = fresh.at(-1)?.number ?? after;
      },
    );
  }, [id, restarted.value?.startedAt]);
  useEffect(() => {
    const box = place.current;
    if (box && follows.current) box.scrollTop = box.scrollHeight;
  }, [lines]);
  const onScroll = ({ currentTarget: box }: { currentTarget: HTMLPreElement }): void => {
    follows.current = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  };
  return (
    <section aria-label="Standard error">
      <h3>Standard error</h3>
      {lines.length === 0 ? (
        <p class="hint">It has written nothing.</p>
      ) : (
        <pre class="log" ref={place} onScroll={onScroll} tabIndex={0} aria-label={`Lines of ${clean(id, 60)}`}>
          {forgotten > 0 && <span class="quiet">({count(forgotten)} lines are forgotten){"\n"}</span>}
          {lines.map((line, at) => (
            <span key={`${line.at} ${line.number}`}>
              {at > 0 && lines[at - 1]?.incarnation !== line.incarnation && <span class="log-cut">{`incarnation ${line.incarnation}\n`}</span>}
              <i>{clockShort(line.at)}</i> {clean(line.text, 4096)}
              {"\n"}
            </span>
          ))}
        </pre>
      )}
    </section>
  );
}

function Awake({ actor }: { actor: Actor }) {
  const id = actor.capabilityId;
  const floor = stats.value?.floors?.actors?.[id];
  if (floor?.kind !== "guest") return null;
  const per = rates.value;
  const told = verdict(floor, per?.wakeups.get(id) ?? 0, per?.agains.get(id) ?? 0, per?.cpu.get(id) ?? 0);
  return (
    <section aria-label="Why is it awake?">
      <h3>Why is it awake?</h3>
      <p class={`verdict tone-${told.tone}`}>{clean(told.text, 300)}</p>
      <ul class="reasons">
        {told.reasons.map((reason) => (
          <li key={reason}>{clean(reason, 200)}</li>
        ))}
      </ul>
    </section>
  );
}

function Types({ id }: { id: string }) {
  const info = catalogue.value?.capabilities.find((one) => one.id === id);
  if (!info) return null;
  return (
    <section aria-label="What it takes">
      <h3>Takes</h3>
      <ul class="types">
        {info.handles.map(({ kind, type }) => (
          <li key={`${kind} ${type}`}>
            <Kind kind={kind} />
            <a href={href("call", type)}>{clean(type, 80)}</a>
          </li>
        ))}
        {info.subscribes
          .filter((type) => !info.handles.some((handle) => handle.type === type))
          .map((type) => (
            <li key={type}>
              <Kind kind="event" />
              {clean(type, 80)}
            </li>
          ))}
      </ul>
    </section>
  );
}

function LastFault({ actor }: { actor: Actor }) {
  const fault = actor.lastFault;
  if (!fault) return null;
  return (
    <section aria-label="Last failure">
      <h3>
        Last failure <span class="quiet">{ago(fault.at)}</span>
      </h3>
      {fault.message && <p class="tone-bad">{clean(fault.message, 600)}</p>}
      {fault.words && fault.words.length > 0 && (
        <>
          <h4>Its last words</h4>
          <pre class="log" tabIndex={0} aria-label="Its last words">
            {fault.words.map((line) => `${clean(unquoted(line), 4096)}\n`).join("")}
          </pre>
        </>
      )}
    </section>
  );
}

function Detail({ actor }: { actor: Actor }) {
  const id = actor.capabilityId;
  const info = catalogue.value?.capabilities.find((one) => one.id === id);
  const numbers: [string, string][] = [
    ["Handled", count(actor.handled)],
    ["In flight", count(actor.inFlight)],
    ["Mailbox", actor.mailbox === 0 ? "0" : `${count(actor.mailbox)} · ${bytes(actor.mailboxBytes)}`],
    ["p50", nanos(actor.latencyNs?.p50)],
    ["p99", nanos(actor.latencyNs?.p99)],
    ["Slowest of late", nanos(actor.latencyNs?.max)],
    ["Restarts", `${count(Math.max(0, actor.incarnation - 1))}${actor.restartsInWindow > 0 ? ` · ${count(actor.restartsInWindow)} of late` : ""}`],
    ["Faults", count(actor.faults)],
    ["Next probe", actor.probeInMs == null ? "–" : `in ${millis(actor.probeInMs)}`],
    ["Runs as", `${clean(actor.program ?? "native", 12)}${actor.pid === undefined ? "" : ` ${actor.pid}`}`],
    ["CPU", actor.cpuMs === undefined ? "–" : percent(rates.value?.cpu.get(id) ?? 0)],
    ["Memory", bytes(actor.memoryBytes)],
  ];
  return (
    <div class="capability pad">
      <header class="detail-head">
        <div>
          <h2>
            {clean(id, 80)} <State state={actor.state} />
          </h2>
          <p>{situation(actor)}</p>
          {info && <p class="hint">{clean(info.description, 400)}</p>}
        </div>
        <Actions actor={actor} />
      </header>
      <dl class="facts wide-facts">
        {numbers.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <LastFault actor={actor} />
      <Awake actor={actor} />
      <Types id={id} />
      {mayOperate.value && (actor.program ?? "native") !== "native" && <Logs id={id} />}
    </div>
  );
}

export function Capabilities() {
  const open = route.value.item;
  const list = [...actors.value].sort((a, b) => Number(isSick(b)) - Number(isSick(a)) || a.capabilityId.localeCompare(b.capabilityId));
  const actor = list.find((one) => one.capabilityId === open);
  return (
    <>
      <h1 class="title">Capabilities</h1>
      {list.length === 0 ? (
        <div class="card">
          <Empty icon="capabilities" title="No capabilities yet">
            <p>A capability is a program that reads messages and writes messages, a line each. Make one and start it:</p>
            <pre>mainspring new capability greeter</pre>
          </Empty>
        </div>
      ) : (
        <div class={`split actors ${open !== "" ? "open" : ""}`}>
          <div class="card scroll" tabIndex={0} role="region" aria-label="All capabilities">
            <Table list={list} open={open} />
          </div>
          {open !== "" && (
            <div class="card inspector" role="region" aria-label={clean(open, 60)}>
              <button type="button" class="button quiet inspector-close" aria-label="Close" onClick={() => go("capabilities")}>
                <Icon name="close" />
              </button>
              {actor ? <Detail key={actor.capabilityId} actor={actor} /> : <Empty icon="capabilities" title={`There is no ${clean(open, 60)}`} />}
            </div>
          )}
        </div>
      )}
    </>
  );
}
