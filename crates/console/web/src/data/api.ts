// The daemon as the page reaches it: its HTTP interface and nothing else. What is done here, `curl`
// can do.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Kind = "command" | "query" | "event";

/** An error of the daemon, or of HTTP itself. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly type: string,
    detail: string,
    readonly more: Record<string, unknown> = {},
  ) {
    super(detail);
  }
}

/** The daemon cannot be reached. */
export class Away extends Error {}

const SESSION = "mainspring.session";
let session: string | null = null;
/** How many messages of ours the daemon has counted among all. */
export let sent = 0;

export function restoreSession(): void {
  session = sessionStorage.getItem(SESSION);
}

export const isSignedIn = (): boolean => session !== null;

export function setSession(token: string | null): void {
  session = token;
  if (token === null) sessionStorage.removeItem(SESSION);
  else sessionStorage.setItem(SESSION, token);
}

/** Swaps the one-time token of the address for a session. */
export async function openSession(once: string): Promise<void> {
  const response = await request("/v1/console/session", { method: "POST", body: JSON.stringify({ token: once }) });
  const answer = (await response.json()) as { session: string };
  setSession(answer.session);
}

async function request(path: string, options: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  if (session !== null) headers.authorization = `Bearer ${session}`;
  let response: Response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Away("the daemon does not answer");
  }
  if (response.ok) return response;
  throw await problem(response);
}

async function problem(response: Response): Promise<Problem> {
  try {
    const { type, detail, title, status: _, ...more } = (await response.json()) as Record<string, unknown>;
    return new Problem(response.status, String(type ?? "about:blank"), String(detail || title || response.statusText), more);
  } catch {
    return new Problem(response.status, "about:blank", response.statusText || `status ${response.status}`);
  }
}

export interface Answer {
  data: Json;
  /** The id of the message, by which its trace is found. */
  id: string;
  tookMs: number;
}

const PATHS: Record<Kind, string> = { command: "commands", query: "queries", event: "events" };

/** Sends one message and waits for its outcome. */
export async function send(kind: Kind, type: string, data: Json, signal?: AbortSignal): Promise<Answer> {
  const start = performance.now();
  sent += 1;
  const response = await request(`/v1/${PATHS[kind]}/${encodeURIComponent(type)}`, {
    method: "POST",
    body: JSON.stringify(data),
    headers: { "content-type": "application/json" },
    ...(signal ? { signal } : {}),
  });
  const text = await response.text();
  return {
    data: text === "" ? null : (JSON.parse(text) as Json),
    id: response.headers.get("x-message-id") ?? "",
    tookMs: performance.now() - start,
  };
}

export async function query<T>(type: string, data: Json = {}): Promise<T> {
  return (await send("query", type, data)).data as T;
}

export async function command<T>(type: string, data: Json = {}): Promise<T> {
  return (await send("command", type, data)).data as T;
}

let serial = 0;
const page = crypto.randomUUID();
const freshId = (): string => `console-${page}-${(serial += 1)}`;

export type Asked = [type: string, data: Json];
export type Told<T = unknown> = { ok: true; data: T } | { ok: false; problem: Problem };

/** Several queries in one request: a round. */
export async function round(asked: Asked[]): Promise<Told[]> {
  const ids = asked.map(() => freshId());
  const lines = asked.map(([type, data], at) =>
    JSON.stringify({ kind: "query", type, data, metadata: { id: ids[at], timestamp: Date.now() } }),
  );
  sent += asked.length;
  const response = await request("/v1/messages", {
    method: "POST",
    body: `${lines.join("\n")}\n`,
    headers: { "content-type": "application/x-ndjson" },
    signal: AbortSignal.timeout(10_000),
  });
  let text: string;
  try {
    text = await response.text();
  } catch {
    throw new Away("the daemon broke off");
  }
  const told: Told[] = asked.map(([type]) => ({ ok: false, problem: new Problem(503, "about:blank", `${type} was not answered`) }));
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const message = JSON.parse(line) as { kind: string; type: string; data: unknown; metadata: { causation?: string } };
    const at = ids.indexOf(message.metadata.causation ?? "");
    if (at < 0) continue;
    if (message.kind === "reply") told[at] = { ok: true, data: message.data };
    else {
      const { code, message: text, ...more } = message.data as { code?: number; message?: string };
      told[at] = { ok: false, problem: new Problem(code ?? 500, message.type, text ?? "failed", more) };
    }
  }
  return told;
}

/** Events as they happen; returns when the daemon ends the stream. */
export async function events(
  parameters: Record<string, string>,
  signal: AbortSignal,
  onOpen: () => void,
  onEvent: (type: string, data: unknown) => void,
): Promise<void> {
  const response = await request(`/v1/events?${new URLSearchParams(parameters)}`, {
    headers: { accept: "application/x-ndjson" },
    signal,
  });
  onOpen();
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  for (;;) {
    let piece: ReadableStreamReadResult<string>;
    try {
      piece = await reader.read();
    } catch (error) {
      if (signal.aborted) throw error;
      throw new Away("the stream broke off");
    }
    if (piece.done) return;
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") continue;
      const message = JSON.parse(line) as { type: string; data: unknown };
      onEvent(message.type, message.data);
    }
  }
}
