// A list of many rows of which only those in sight are drawn. One of them is chosen; the keys move
// the choice.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

interface ListProps<T> {
  label: string;
  rows: T[];
  rowHeight: number;
  id: (row: T) => string;
  draw: (row: T) => ComponentChildren;
  chosen: string | null;
  onChoose: (row: T) => void;
  /** Whether rows are added on top: then what is in sight stays in sight. */
  grows: number;
}

export function VirtualList<T>({ label, rows, rowHeight, id, draw, chosen, onChoose, grows }: ListProps<T>) {
  const place = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  // The row that the keys are at, by its id: rows come and go around it.
  const [current, setCurrent] = useState<string | null>(null);
  const at = useMemo(() => (current === null ? -1 : rows.findIndex((row) => id(row) === current)), [rows, current]);
  const setAt = (index: number): void => {
    const row = rows[index];
    if (row) setCurrent(id(row));
  };
  const grown = useRef(grows);
  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const observer = new ResizeObserver(() => setHeight(box.clientHeight));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const added = grows - grown.current;
    grown.current = grows;
    const box = place.current;
    if (box && added > 0 && box.scrollTop > rowHeight) box.scrollTop += added * rowHeight;
  }, [grows]);
  const move = (to: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    setAt(next);
    const box = place.current;
    if (!box) return;
    if (next * rowHeight < box.scrollTop) box.scrollTop = next * rowHeight;
    if ((next + 1) * rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = (next + 1) * rowHeight - box.clientHeight;
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(height / rowHeight) - 1);
    const steps: Record<string, number> = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 };
    const to = steps[event.key];
    const row = rows[at];
    if (to !== undefined) move(to);
    else if (event.key === "Enter" && row) onChoose(row);
    else return;
    event.preventDefault();
  };
  const first = Math.max(0, Math.floor(top / rowHeight) - 4);
  const last = Math.min(rows.length, Math.ceil((top + height) / rowHeight) + 4);
  return (
    <div
      class="virtual"
      ref={place}
      role="listbox"
      aria-label={label}
      tabIndex={0}
      aria-activedescendant={at >= first && at < last ? `row-${at}` : undefined}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={onKeyDown}
    >
      <div class="virtual-all" role="presentation" style={{ height: `${rows.length * rowHeight}px` }}>
        {rows.slice(first, last).map((row, offset) => {
          const index = first + offset;
          return (
            <div
              key={id(row)}
              id={`row-${index}`}
              role="option"
              aria-selected={chosen === id(row)}
              aria-setsize={rows.length}
              aria-posinset={index + 1}
              class={`virtual-row ${index === at ? "at" : ""}`}
              style={{ transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }}
              onClick={() => {
                setAt(index);
                onChoose(row);
              }}
            >
              {draw(row)}
            </div>
          );
        })}
      </div>
    </div>
  );
}
