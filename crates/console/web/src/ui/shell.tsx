// The frame: name, panels, the strip, what is wrong, and the open panel.

import { useEffect, useRef, useState } from "preact/hooks";
import { setSession } from "../data/api.ts";
import { answeredAt, link, rights, restarted, signedOutBecause, signOut, start, stats } from "../data/live.ts";
import { ago, clean, clockShort, millis } from "../format.ts";
import { Call } from "../panels/call.tsx";
import { Capabilities } from "../panels/capabilities.tsx";
import { DeadLetters } from "../panels/letters.tsx";
import { JournalPanel } from "../panels/journal.tsx";
import { Overview } from "../panels/overview.tsx";
import { Stream } from "../panels/stream.tsx";
import { Timers } from "../panels/timers.tsx";
import { Traces } from "../panels/traces.tsx";
import { href, PANELS, route } from "../route.ts";
import { Dialog, Icon, Toasts } from "./bits.tsx";
import { helpOpen, KEYS } from "./keys.ts";
import { Strip } from "./strip.tsx";
import { theme, toggleTheme } from "./theme.ts";

const BODIES = {
  overview: Overview,
  stream: Stream,
  traces: Traces,
  capabilities: Capabilities,
  call: Call,
  letters: DeadLetters,
  timers: Timers,
  journal: JournalPanel,
};

function Brand() {
  return (
    <a class="brand" href={href("overview")} aria-label="Mainspring, overview">
      <svg viewBox="0 0 32 32" aria-hidden="true">
        <path d="M16 16a2 2 0 0 1 3.600-1.200 4.600 4.600 0 0 1-3.600 6.400 6.600 6.600 0 0 1-6.600-6.600A8.400 8.400 0 0 1 17.800 6 10.200 10.200 0 0 1 27 16.200 11.400 11.400 0 0 1 15.600 27.400" />
      </svg>
      <span>Mainspring</span>
    </a>
  );
}

function Nav() {
  const open = route.value.panel;
  const letters = stats.value?.gauges.deadLetters ?? 0;
  const place = useRef<HTMLElement>(null);
  useEffect(() => place.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [open]);
  return (
    <nav aria-label="Panels" ref={place}>
      {PANELS.map(({ id, title, key }) => (
        <a key={id} href={href(id)} aria-current={open === id ? "page" : undefined} title={`${title} (${key})`}>
          <Icon name={id} />
          <span>{title}</span>
          {id === "letters" && letters > 0 && <b class="count">{letters > 999 ? "999+" : letters}</b>}
        </a>
      ))}
    </nav>
  );
}

function LinkState() {
  return (
    <span class={`link link-${link.value}`}>
      <i />
      {link.value === "live" ? "Live" : link.value === "away" ? "Away" : "Connecting"}
    </span>
  );
}

/** Colours, keys, and the way out. */
function Buttons() {
  return (
    <span class="foot-buttons">
      <button type="button" class="button quiet" aria-label={theme.value === "dark" ? "Light colours" : "Dark colours"} onClick={toggleTheme}>
        <Icon name="sun" />
      </button>
      <button type="button" class="button quiet keys-button" aria-label="Keys" onClick={() => (helpOpen.value = true)}>
        <kbd>?</kbd>
      </button>
      <button type="button" class="button quiet" onClick={() => signOut()}>
        <Icon name="out" />
        Sign out
      </button>
    </span>
  );
}

/** Who is connected to what, at the foot of the panels. */
function Foot() {
  const daemon = stats.value?.floors?.daemon;
  const who = rights.value;
  return (
    <div class="foot">
      <LinkState />
      {daemon && (
        <span title={`process ${daemon.pid}, since ${new Date(daemon.startedAt).toLocaleString()}`}>
          {clean(daemon.version, 20)} · up {millis(daemon.uptimeMs)}
        </span>
      )}
      {who && (
        <span title={`May send ${who.allow.join(", ")}`}>
          {clean(who.peer ?? "you", 40)} · {who.operator ? "operator" : "read-only"}
        </span>
      )}
      <Buttons />
    </div>
  );
}

/** How long ago something was, as it passes. It is not read aloud every second. */
function Ago({ at }: { at: number }) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => redraw((value) => value + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return <span aria-hidden="true">{ago(at)}</span>;
}

function Banners() {
  const again = restarted.value;
  const isReadOnly = rights.value?.operator === false;
  return (
    <section class="banners" aria-label="News of the daemon" aria-live="polite">
      {link.value === "away" && (
        <p class="banner tone-bad" role="alert">
          <Icon name="warn" />
          <span>
            <strong>The daemon is away.</strong>{" "}
            {answeredAt.value > 0 ? (
              <>
                It answered <Ago at={answeredAt.value} />; what you see is from then.
              </>
            ) : (
              "It has not answered yet."
            )}{" "}
            Trying again every second.
          </span>
        </p>
      )}
      {link.value === "live" && again && (
        <p class="banner tone-warn">
          <Icon name="again" />
          <span>
            <strong>The daemon was restarted</strong> at {clockShort(again.startedAt)}. Counts and charts begin anew there.
            {again.isOtherVersion && ` It is version ${clean(stats.value?.floors?.daemon?.version, 20)} now, and may have another page.`}
          </span>
          {again.isOtherVersion && (
            <button type="button" class="button" onClick={() => location.reload()}>
              Reload
            </button>
          )}
          <button type="button" class="button quiet" aria-label="Dismiss" onClick={() => (restarted.value = null)}>
            <Icon name="close" />
          </button>
        </p>
      )}
      {link.value === "live" && isReadOnly && (
        <p class="banner">
          <span>
            <strong>Read-only.</strong> {clean(rights.value?.peer ?? "This token", 60)} is no operator: it sees its own traffic, and changes nothing of the daemon's.
          </span>
        </p>
      )}
    </section>
  );
}

function SignIn() {
  const [token, setToken] = useState("");
  const enter = (event: Event): void => {
    event.preventDefault();
    setSession(token.trim());
    start();
  };
  return (
    <main class="sign-in">
      <form onSubmit={enter}>
        <Brand />
        <h1>Open the console</h1>
        {signedOutBecause.value !== "" && (
          <p class="banner tone-warn" role="alert">
            {clean(signedOutBecause.value)}
          </p>
        )}
        <p>On the machine of the daemon, this command opens a session for you:</p>
        <pre>mainspring console</pre>
        <label>
          Or use a token of the HTTP listener
          <input type="password" autocomplete="off" required value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        </label>
        <button type="submit" class="button main" disabled={token.trim() === ""}>
          Sign in
        </button>
      </form>
    </main>
  );
}

function Help() {
  return (
    <Dialog title="Keys" onClose={() => (helpOpen.value = false)}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

export function Shell() {
  if (link.value === "signed-out") return <SignIn />;
  const { panel } = route.value;
  const Body = BODIES[panel];
  return (
    <div class="shell">
      <a class="skip" href="#panel" onClick={(event) => (event.preventDefault(), document.getElementById("panel")?.focus())}>
        Skip to the panel
      </a>
      <aside>
        <Brand />
        <Nav />
        <Foot />
      </aside>
      <div class="stage">
        <header class="top">
          <Brand />
          <LinkState />
          <Buttons />
        </header>
        <Strip />
        <Banners />
        <main id="panel" tabIndex={-1} class={`panel-${panel}`}>
          <Body />
        </main>
      </div>
      <Toasts />
      {helpOpen.value && <Help />}
    </div>
  );
}
