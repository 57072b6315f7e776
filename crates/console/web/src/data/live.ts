// What the page knows of the daemon: one round of questions a second, the numbers made of it, and
// whether the daemon is there.

import { computed, effect, signal } from "@preact/signals";
import { Away, command, isSignedIn, Problem, query, restoreSession, round, sent, setSession, type Asked, type Told } from "./api.ts";
import type { Actor, Catalogue, Rights, Stats } from "./types.ts";

/** How often a visible page asks, and a hidden one. */
const ROUND_MS = 1000;
const HIDDEN_ROUND_MS = 10_000;
/** The least time that rates are taken over. */
const RATE_MS_MIN = 700;
/** Points of each chart: ten minutes. */
export const POINTS_MAX = 600;

export type Link = "starting" | "live" | "away" | "signed-out";

export const link = signal<Link>("starting");
/** Why somebody is signed out, if it is worth a word. */
export const signedOutBecause = signal("");
/** When the daemon answered last. */
export const answeredAt = signal(0);
export const stats = signal<Stats | null>(null);
export const actors = signal<Actor[]>([]);
export const rights = signal<Rights | null>(null);
export const catalogue = signal<Catalogue | null>(null);
export const mayOperate = computed(() => rights.value?.operator === true);
/** When the page noticed that another run of the daemon answers, and which was there before. */
export const restarted = signal<{ startedAt: number; isOtherVersion: boolean } | null>(null);
/** Counts rounds, for whoever wants to be drawn with each. */
export const tick = signal(0);

/** What happened per second between the last two rounds. */
export interface Rates {
  messages: number;
  errors: number;
  handled: Map<string, number>;
  wakeups: Map<string, number>;
  agains: Map<string, number>;
  cpu: Map<string, number>;
  daemonCpu: number;
  busy: number | null;
  flushes: number;
  facts: number;
  served: [system: number, completions: number, user: number];
}
export const rates = signal<Rates | null>(null);

export const SERIES = ["messages", "errors", "p50", "p99", "busy", "lag", "memory", "inFlight", "flush", "facts"] as const;
export type SeriesName = (typeof SERIES)[number];
type Column = (number | null)[];
/** Times in seconds, and a column of each series beside them. A null is a gap. */
export const times: number[] = [];
export const series = Object.fromEntries(SERIES.map((name) => [name, [] as Column])) as Record<SeriesName, Column>;

interface Wanted {
  asked: () => Asked;
  told: (told: Told) => void;
}
/** Questions of open panels; they travel with the round. */
const wanted = new Map<symbol, Wanted>();

/**
 * Has a question asked with every round until the returned function is called, and as soon as
 * possible.
 */
export function askEachRound(asked: () => Asked, told: (told: Told) => void): () => void {
  const key = Symbol();
  wanted.set(key, { asked, told });
  hurry();
  return () => void wanted.delete(key);
}

let timer: ReturnType<typeof setTimeout> | undefined;
let asking = false;
let again = false;

/** Asks now instead of with the next round: after something was changed. */
export function hurry(): void {
  if (asking) again = true;
  else if (link.value === "live") schedule(0);
}

function schedule(delay: number): void {
  clearTimeout(timer);
  timer = setTimeout(() => void ask(), delay);
}

async function ask(): Promise<void> {
  asking = true;
  again = false;
  const before = performance.now();
  const extras = [...wanted.values()];
  const sentThen = sent;
  try {
    const told = await round([["Sys.Stats", {}], ["Sys.Actors", {}], ...extras.map((extra) => extra.asked())]);
    await take(told, sentThen);
    told.slice(2).forEach((answer, at) => extras[at]?.told(answer));
  } catch (error) {
    missed(error);
  }
  asking = false;
  if (link.value === "signed-out") return;
  const every = document.hidden ? HIDDEN_ROUND_MS : ROUND_MS;
  schedule(again ? 50 : Math.max(100, every - (performance.now() - before)));
}

function missed(error: unknown): void {
  if (error instanceof Problem && error.status === 401) return signOut(isSignedIn() ? "This session is not known to the daemon any more." : signedOutBecause.value);
  const isAway = error instanceof Away || (error instanceof Problem && error.status >= 500) || error instanceof DOMException;
  if (!isAway) console.warn("a round failed:", error);
  if (link.value === "live") gap();
  link.value = "away";
}

async function take([first, second]: Told[], sentThen: number): Promise<void> {
  if (!first?.ok || !second?.ok) throw new Away("the daemon is busy ending");
  const now = first.data as Stats;
  const list = (second.data as { actors: Actor[] }).actors;
  const last = stats.value;
  const lastStart = last?.floors?.daemon?.startedAt;
  const start = now.floors?.daemon?.startedAt;
  const isOther = lastStart !== undefined && start !== undefined && Math.abs(start - lastStart) > 1;
  if (isOther) {
    // The page is that of the version which it was opened at.
    const isOtherVersion = now.floors?.daemon?.version !== last?.floors?.daemon?.version || restarted.value?.isOtherVersion === true;
    restarted.value = { startedAt: start, isOtherVersion };
    gap();
  }
  const wasAway = link.value !== "live";
  // The daemon's own clock: how long an answer took to come here does not matter then.
  const at = now.floors?.daemon?.uptimeMs ?? Date.now();
  stats.value = now;
  actors.value = list;
  answeredAt.value = Date.now();
  link.value = "live";
  if (wasAway || isOther) {
    base = null;
    rates.value = null;
    await learn();
  } else if (names(list) !== namesKnown) await learnCatalogue();
  // A hurried round comes too soon after the last one to tell what happens per second.
  if (base === null || at - base.at >= RATE_MS_MIN) {
    rates.value = base ? compare(base.stats, now, base.actors, list, (at - base.at) / 1000, sentThen - base.sent) : null;
    base = { stats: now, actors: list, at, sent: sentThen };
    draw(now);
  }
  tick.value += 1;
}

/** The round that rates are counted from. */
let base: { stats: Stats; actors: Actor[]; at: number; sent: number } | null = null;

let namesKnown = "";
const names = (list: Actor[]): string => list.map((actor) => `${actor.capabilityId}#${actor.incarnation}`).join("\n");

/** What changes seldom: the rights of this session, and what can be sent. */
async function learn(): Promise<void> {
  rights.value = await command<Rights>("Sys.Restrict", {});
  await learnCatalogue();
}

async function learnCatalogue(): Promise<void> {
  catalogue.value = await query<Catalogue>("Syscall.Describe", {});
  namesKnown = names(actors.value);
}

function compare(last: Stats, now: Stats, before: Actor[], list: Actor[], seconds: number, own: number): Rates {
  const grown = (name: string): number => Math.max(0, (now.counters[name] ?? 0) - (last.counters[name] ?? 0));
  const per = (amount: number): number => Math.max(0, amount) / Math.max(0.05, seconds);
  const handledBefore = new Map(before.map((actor) => [actor.capabilityId, actor]));
  const each = (value: (actor: Actor) => number): Map<string, number> =>
    new Map(
      list.map((actor) => {
        const old = handledBefore.get(actor.capabilityId);
        return [actor.capabilityId, old ? per(value(actor) - value(old)) : 0];
      }),
    );
  const floor = (all: Stats, id: string, name: "wakeups" | "agains"): number => all.floors?.actors?.[id]?.[name] ?? 0;
  const guests = (name: "wakeups" | "agains"): Map<string, number> =>
    new Map(list.map(({ capabilityId: id }) => [id, per(floor(now, id, name) - floor(last, id, name))]));
  const journal = (name: "flushes" | "facts"): number => per((now.floors?.journal?.[name] ?? 0) - (last.floors?.journal?.[name] ?? 0));
  return {
    messages: per(grown("requestsAccepted") + grown("eventsAccepted") - own),
    errors: per(grown("requestsFailed")),
    handled: each((actor) => actor.handled),
    wakeups: guests("wakeups"),
    agains: guests("agains"),
    cpu: each((actor) => (actor.cpuMs ?? 0) / 1000),
    daemonCpu: per((now.floors?.daemon?.cpuMs ?? 0) - (last.floors?.daemon?.cpuMs ?? 0)) / 1000,
    busy: now.floors?.loop?.busy ?? null,
    flushes: journal("flushes"),
    facts: journal("facts"),
    served: [per(grown("systemServed")), per(grown("completionsServed") - own), per(grown("userServed") - own)],
  };
}

function add(at: number, values: Partial<Record<SeriesName, number | null>>): void {
  times.push(at);
  for (const name of SERIES) series[name].push(values[name] ?? null);
  const extra = times.length - POINTS_MAX;
  if (extra <= 0) return;
  times.splice(0, extra);
  for (const name of SERIES) series[name].splice(0, extra);
}

const gap = (): void => add(Date.now() / 1000, {});

function draw(now: Stats): void {
  const per = rates.value;
  add(Date.now() / 1000, {
    messages: per?.messages ?? null,
    errors: per?.errors ?? null,
    p50: now.latencyNs ? now.latencyNs.p50 / 1e6 : null,
    p99: now.latencyNs ? now.latencyNs.p99 / 1e6 : null,
    busy: now.floors?.loop?.busy == null ? null : now.floors.loop.busy * 100,
    lag: lagNs(now) == null ? null : (lagNs(now) ?? 0) / 1e6,
    memory: now.floors?.daemon?.memoryBytes ?? null,
    inFlight: now.gauges.inFlight ?? null,
    flush: now.floors?.journal ? now.floors.journal.flushMeanUs / 1000 : null,
    facts: per?.facts ?? null,
  });
}

/** How late the loop was: the 99th percentile where it is told, else the last turn. */
export function lagNs(now: Stats | null): number | null {
  const lag = now?.floors?.loop?.lagNs;
  return lag?.p99 ?? lag?.last ?? null;
}

export function signOut(because = ""): void {
  setSession(null);
  clearTimeout(timer);
  signedOutBecause.value = because;
  link.value = "signed-out";
}

/** Begins with the session that there is. */
export function start(): void {
  link.value = "starting";
  schedule(0);
}

/**
 * Begins with the session of an earlier visit. Without one it tries: a listener on a Unix socket
 * asks for none.
 */
export function startOrSignIn(because = ""): void {
  restoreSession();
  signedOutBecause.value = because;
  start();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) hurry();
});
effect(() => {
  const failing = actors.value.filter((actor) => isSick(actor)).length;
  const title = link.value === "away" ? "away" : failing > 0 ? `${failing} down` : "";
  document.title = title === "" ? "Mainspring" : `(${title}) Mainspring`;
});

/** Whether an actor does not work as it should. */
export function isSick(actor: Actor): boolean {
  return ["failing", "backoff", "unhealthy", "down", "restarting"].includes(actor.state) || actor.overdue > 0;
}
