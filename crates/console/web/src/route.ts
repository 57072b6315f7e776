// Which panel is open, and on what: in the fragment of the address, so that a link leads there and
// "back" goes back.

import { signal } from "@preact/signals";

export const PANELS = [
  { id: "overview", title: "Overview", key: "1" },
  { id: "stream", title: "Stream", key: "2" },
  { id: "traces", title: "Traces", key: "3" },
  { id: "capabilities", title: "Capabilities", key: "4" },
  { id: "call", title: "Call", key: "5" },
  { id: "letters", title: "Dead letters", key: "6" },
  { id: "timers", title: "Timers", key: "7" },
  { id: "journal", title: "Journal", key: "8" },
] as const;

export type PanelId = (typeof PANELS)[number]["id"];

export interface Route {
  panel: PanelId;
  /** What is open in it: a message, a capability, a type. */
  item: string;
}

function read(): Route {
  const [, panel = "", item = ""] = location.hash.split("/");
  const known = PANELS.find(({ id }) => id === panel)?.id ?? "overview";
  try {
    return { panel: known, item: decodeURIComponent(item) };
  } catch {
    return { panel: known, item: "" };
  }
}

export const route = signal<Route>(read());

export function href(panel: PanelId, item = ""): string {
  return item === "" ? `#/${panel}` : `#/${panel}/${encodeURIComponent(item)}`;
}

export function go(panel: PanelId, item = ""): void {
  location.hash = href(panel, item);
}

addEventListener("hashchange", () => {
  route.value = read();
});
