// Light or dark: as the system says, or as somebody chose.

import { effect, signal } from "@preact/signals";

const CHOICE = "mainspring.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const chosen = signal(localStorage.getItem(CHOICE));
const systemIsDark = signal(system.matches);
system.addEventListener("change", () => (systemIsDark.value = system.matches));

export const theme = signal<"light" | "dark">("light");

effect(() => {
  const choice = chosen.value;
  const now = choice === "light" || choice === "dark" ? choice : systemIsDark.value ? "dark" : "light";
  document.documentElement.dataset.theme = now;
  theme.value = now;
});

export function toggleTheme(): void {
  const next = theme.value === "dark" ? "light" : "dark";
  localStorage.setItem(CHOICE, next);
  chosen.value = next;
}
