// The console of Mainspring: one page that watches and steers a daemon. See docs/how-to/console.md.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { render } from "preact";
import { openSession, Problem } from "./data/api.ts";
import { start, startOrSignIn } from "./data/live.ts";
import { startTap } from "./data/tap.ts";
import { listenForKeys } from "./ui/keys.ts";
import { Shell } from "./ui/shell.tsx";

/**
 * The one-time token of the address, which is taken out of it at once: it is not to stay in the
 * history.
 */
function onceFromAddress(): string | null {
  const found = /^#t=([A-Za-z0-9_-]+)$/.exec(location.hash)?.[1] ?? null;
  if (found !== null) history.replaceState(null, "", "/");
  return found;
}

async function begin(): Promise<void> {
  const once = onceFromAddress();
  if (once === null) return startOrSignIn();
  try {
    await openSession(once);
    start();
  } catch (error) {
    const isUsed = error instanceof Problem && error.status === 401;
    startOrSignIn(isUsed ? "That link was used already, or is older than a minute." : String((error as Error).message));
  }
}

startTap();
listenForKeys();
const app = document.getElementById("app");
if (app) render(<Shell />, app);
void begin();
