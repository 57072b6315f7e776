// Small parts that every panel uses.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Problem } from "../data/api.ts";
import { mayOperate, rights } from "../data/live.ts";
import { clean } from "../format.ts";

const ICONS = {
  overview: "M2.5 9.5h3l2-6 2.500 9 1.500-3h2",
  stream: "M2 4h12M2 8h12M2 12h7",
  traces: "M2 3.500h7M5 8h8M8 12.500h6",
  capabilities: "M2.500 2.500h4.500v4.500h-4.500zM9 2.500h4.500v4.500H9zM2.500 9h4.500v4.500h-4.500zM9 9h4.500v4.500H9z",
  call: "M13.500 2.500 2.500 6.800l4.600 2.100 2.100 4.600z",
  letters: "M2 4h12v8.500H2zM2 4.500l6 4.500 6-4.500",
  timers: "M8 14A5.500 5.500 0 1 0 8 3a5.500 5.500 0 0 0 0 11zM8 5.500v3l2 1.500M6.500 1.200h3",
  journal: "M3.500 2h7.500a1.500 1.500 0 0 1 1.500 1.500V14H5a1.500 1.500 0 0 1-1.500-1.500zM6 5h4M6 8h4",
  pause: "M5.500 3.500v9M10.500 3.500v9",
  play: "M5 3.200v9.600l7.500-4.800z",
  close: "M4 4l8 8M12 4l-8 8",
  search: "M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM10.500 10.500 14 14",
  copy: "M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3",
  again: "M13 8a5 5 0 1 1-1.600-3.700M13.200 2.200v2.600h-2.600",
  warn: "M8 2.200 14.500 13.500h-13zM8 6.500v3.500M8 11.700v.3",
  check: "M3 8.500l3.500 3.500L13 4.500",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  client: "M8 8a2.800 2.800 0 1 0 0-5.600A2.800 2.800 0 0 0 8 8zM2.800 14c.4-2.800 2.400-4 5.200-4s4.800 1.200 5.200 4",
  watch: "M1.500 8S4 3.500 8 3.500 14.500 8 14.500 8 12 12.500 8 12.500 1.500 8 1.500 8zM8 9.800a1.800 1.800 0 1 0 0-3.600 1.800 1.800 0 0 0 0 3.600z",
  out: "M6.500 2.500h-3v11h3M10 5l3 3-3 3M13 8H6.500",
} as const;

export type IconName = keyof typeof ICONS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={ICONS[name]} />
    </svg>
  );
}

/** A considered nothing: what would be here, and how to get it. */
export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={icon} />
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Kind({ kind }: { kind: string }) {
  return <span class={`kind kind-${clean(kind, 10)}`}>{clean(kind, 10)}</span>;
}

const STATES: Record<string, string> = { up: "ok", starting: "busy", retiring: "busy", stopped: "off", removed: "off" };

export function stateTone(state: string): string {
  return STATES[state] ?? "bad";
}

/** The state of an actor as a dot and a word, or a dot and another word. */
export function State({ state, label = state }: { state: string; label?: string }) {
  return (
    <span class={`state tone-${stateTone(state)}`}>
      <i />
      {clean(label, 40)}
    </span>
  );
}

interface Toast {
  serial: number;
  text: string;
  tone: "ok" | "bad";
}
const toasts = signal<Toast[]>([]);
let toastSerial = 0;

export function say(text: string, tone: Toast["tone"] = "ok"): void {
  const serial = (toastSerial += 1);
  toasts.value = [...toasts.value.slice(-3), { serial, text, tone }];
  setTimeout(() => (toasts.value = toasts.value.filter((toast) => toast.serial !== serial)), tone === "ok" ? 4000 : 9000);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.serial} class={`toast tone-${toast.tone}`}>
          <Icon name={toast.tone === "ok" ? "check" : "warn"} />
          <span>{clean(toast.text, 400)}</span>
        </div>
      ))}
    </div>
  );
}

/** Does something that may fail, and says how it went. */
export async function attempt(what: string, action: () => Promise<string>): Promise<boolean> {
  try {
    say(await action());
    return true;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    say(`${what}: ${reason}`, "bad");
    if (!(error instanceof Problem)) console.warn(error);
    return false;
  }
}

/** Why this session may not do what operators may. */
export function needsOperator(): string {
  return `Only operators may do this; ${rights.value?.peer ?? "this token"} is none (operator = true in mainspring.toml).`;
}

interface ActionProps {
  onClick: () => void;
  children: ComponentChildren;
  tone?: "main" | "bad" | "quiet";
  /** Whether anybody may, not only operators. */
  open?: boolean;
  disabled?: boolean;
  title?: string;
  label?: string;
}

/** A button that changes something. Who may not is told why instead. */
export function Action({ onClick, children, tone, open, disabled, title, label }: ActionProps) {
  const may = open || mayOperate.value;
  return (
    <button
      type="button"
      class={`button ${tone ?? ""}`}
      disabled={!may || disabled}
      title={may ? title : needsOperator()}
      aria-label={label}
      onClick={onClick}
    >
      {children}
    </button>
  );
}

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${what}.`);
  } catch {
    say("The browser does not let the page copy.", "bad");
  }
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}

export function Dialog({ title, onClose, children, wide }: DialogProps) {
  const place = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = place.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={place} class={wide ? "wide" : ""} aria-label={title} onClose={onClose} onCancel={onClose}>
      <header>
        <h2>{title}</h2>
        <button type="button" class="button quiet" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  action: string;
  onConfirm: () => void;
  onClose: () => void;
  children: ComponentChildren;
}

export function Confirm({ title, action, onConfirm, onClose, children }: ConfirmProps) {
  const confirm = (): void => {
    onClose();
    onConfirm();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="dialog-body">{children}</div>
      <footer>
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="button bad" onClick={confirm}>
          {action}
        </button>
      </footer>
    </Dialog>
  );
}
