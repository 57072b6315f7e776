// Keys that work everywhere. Panels add their own.

import { signal } from "@preact/signals";
import { PANELS, go } from "../route.ts";

export const helpOpen = signal(false);

/** Whether somebody is typing. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return !!target && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

export function listenForKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return;
    if (isTyping(event)) {
      if (event.key === "Escape") (event.target as HTMLElement).blur();
      return;
    }
    const panel = PANELS.find(({ key }) => key === event.key);
    if (panel) {
      go(panel.id);
      document.getElementById("panel")?.focus({ preventScroll: true });
    } else if (event.key === "/") {
      event.preventDefault();
      document.querySelector<HTMLElement>("#panel [data-search]")?.focus();
    } else if (event.key === "?") helpOpen.value = true;
  });
}

export const KEYS: [string, string][] = [
  ["1 – 8", "open a panel"],
  ["/", "search or filter in the open panel"],
  ["↑ ↓  or  j k", "move through rows"],
  ["Enter", "open the row"],
  ["Esc", "close what is open"],
  ["p", "pause the stream, or let it go on"],
  ["Ctrl Enter", "send, in the panel Call"],
  ["?", "this list"],
];
