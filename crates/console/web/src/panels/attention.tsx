// What needs somebody, first and in words. Nothing is shown while all is well.

import { actors, lagNs, stats } from "../data/live.ts";
import type { Actor } from "../data/types.ts";
import { bytes, clean, many, millis, nanos } from "../format.ts";
import { href, type PanelId } from "../route.ts";
import { Icon } from "../ui/bits.tsx";

interface Trouble {
  key: string;
  to: PanelId;
  item?: string;
  what: string;
  why: string;
}

/** Troubles that are shown at once. */
const SHOWN_MAX = 6;
/** How late the loop may be before it is worth a line. */
const LAG_NS_MAX = 50e6;

function ofActor(actor: Actor): Trouble[] {
  const id = actor.capabilityId;
  const base = { key: id, to: "capabilities" as const, item: id };
  const words = actor.lastFault?.words?.at(-1)?.replace(/^"(.*)"$/s, "$1");
  const why = words ? `Its last words: ${words}` : actor.lastFault?.message ? actor.lastFault.message : actor.faults > 0 ? `${many(actor.faults, "fault")} so far.` : "";
  const waits = actor.mailbox > 0 ? `, and ${many(actor.mailbox, "message")} wait for it` : "";
  if (actor.state === "unhealthy") return [{ ...base, what: `${id} failed too often${actor.probeInMs == null ? "" : `; it is tried again in ${millis(actor.probeInMs)}`}${waits}`, why }];
  if (["backoff", "failing", "down"].includes(actor.state)) return [{ ...base, what: `${id} is down and will be started again${waits}`, why }];
  if (actor.overdue > 0) return [{ ...base, what: `${id} has not answered ${many(actor.overdue, "request")} that timed out`, why: "It is restarted as hung if it goes on so." }];
  if (actor.blocked) return [{ ...base, what: `${id} does not read what is sent to it${waits}`, why: "Its input is full." }];
  return [];
}

export function troubles(): Trouble[] {
  const now = stats.value;
  const found = actors.value.flatMap(ofActor);
  const letters = now?.gauges.deadLetters ?? 0;
  const journal = now?.floors?.journal;
  const lag = lagNs(now) ?? 0;
  if (journal?.failed) found.unshift({ key: "journal", to: "journal", what: "The journal failed", why: journal.failed });
  else if (journal?.full) found.unshift({ key: "journal", to: "journal", what: "The journal is full", why: `${bytes(journal.bytes)} in ${journal.folder}` });
  if (letters > 0) found.push({ key: "letters", to: "letters", what: `${many(letters, "dead letter")}`, why: "Put them back when the cause is gone, or drop them." });
  if (lag > LAG_NS_MAX) found.push({ key: "lag", to: "overview", what: `The loop is ${nanos(lag)} late`, why: now?.floors?.loop?.slowest ? `The slowest callback is ${now.floors.loop.slowest}.` : "Something keeps it busy." });
  return found;
}

export function Attention() {
  const found = troubles();
  if (found.length === 0) return null;
  return (
    <section class="card attention" aria-labelledby="attention-title">
      <header>
        <h2 id="attention-title">
          <Icon name="warn" /> Needs attention
        </h2>
        {found.length > SHOWN_MAX && <p class="hint">{found.length - SHOWN_MAX} more</p>}
      </header>
      <ul>
        {found.slice(0, SHOWN_MAX).map(({ key, to, item, what, why }) => (
          <li key={key}>
            <a href={href(to, item)}>
              <b>{clean(what, 160)}</b>
              <span>{clean(why, 200)}</span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
