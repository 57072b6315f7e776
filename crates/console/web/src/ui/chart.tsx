// A chart of uPlot that follows the series of the page, in the colours of the theme.

import { effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { POINTS_MAX, series, tick, times, type SeriesName } from "../data/live.ts";
import { clockShort } from "../format.ts";
import { theme } from "./theme.ts";

export interface Line {
  name: SeriesName;
  label: string;
  /** The name of a colour of the theme. */
  colour: string;
  fill?: boolean;
}

interface ChartProps {
  title: string;
  lines: Line[];
  unit: (value: number) => string;
  /** The least upper end of the scale. */
  least?: number;
  /** Distances that marks of the axis may have. */
  steps?: number[];
}

/** Seconds that a chart shows at most, and at least. */
const SPAN_MAX = POINTS_MAX / 2;
const SPAN_MIN = 12;
/** Pixels. A narrow chart is lower, too. */
const HEIGHT = 132;
const SMALL_WIDTH = 230;
const SMALL_HEIGHT = 104;

/** The point that somebody points at, in all charts at once. */
const pointed = signal<number | null>(null);
const SYNC = uPlot.sync("charts");

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** A colour that fades towards the axis. */
function shade(of: string): (chart: uPlot) => CanvasGradient | string {
  return ({ ctx, bbox }) => {
    if (bbox.height <= 0) return `${of}1f`;
    const gradient = ctx.createLinearGradient(0, bbox.top, 0, bbox.top + bbox.height);
    gradient.addColorStop(0, `${of}44`);
    gradient.addColorStop(1, `${of}08`);
    return gradient;
  };
}

function options({ lines, unit, least = 1, steps }: ChartProps, width: number): uPlot.Options {
  const isSmall = width < SMALL_WIDTH;
  const height = isSmall ? SMALL_HEIGHT : HEIGHT;
  const grid = { stroke: colour("line"), width: 1 };
  const axis = { stroke: colour("muted"), font: `${isSmall ? 10 : 11}px ${colour("sans")}`, ticks: { show: false }, grid };
  return {
    width,
    height,
    padding: [10, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 7, width: 2 }, drag: { x: false, y: false }, sync: { key: SYNC.key } },
    hooks: { setCursor: [(chart) => (pointed.value = chart.cursor.idx ?? null)] },
    scales: {
      x: { time: true, range: () => {
        const now = Date.now() / 1000;
        return [now - Math.min(SPAN_MAX, Math.max(SPAN_MIN, now - (times[0] ?? now))), now];
      } },
      y: { range: (_, __, max) => [0, Math.max(least, (max ?? 0) * 1.15)] },
    },
    axes: [
      { ...axis, size: 24, space: isSmall ? 90 : 70, grid: { show: false }, values: (_, splits) => splits.map((at) => new Date(at * 1000).toTimeString().slice(0, (splits[1] ?? 0) - (splits[0] ?? 0) < 60 ? 8 : 5)) },
      { ...axis, size: isSmall ? 46 : 54, space: 30, ...(steps ? { incrs: steps } : {}), values: (_, splits) => splits.map((value) => unit(value)) },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 1.75,
        spanGaps: false,
        points: { show: false },
        ...(line.fill ? { fill: shade(colour(line.colour)) } : {}),
      })),
    ],
  };
}

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const { lines, unit } = props;
  useEffect(() => {
    const box = place.current;
    if (!box) return;
    let chart: uPlot | undefined;
    const data = (): uPlot.AlignedData => [times, ...lines.map((line) => series[line.name])] as uPlot.AlignedData;
    const make = (): void => {
      chart?.destroy();
      chart = new uPlot(options(props, Math.max(120, box.clientWidth)), data(), box);
    };
    const stop = effect(() => {
      theme.value;
      make();
    });
    const stopDrawing = effect(() => {
      tick.value;
      if (!document.hidden) chart?.setData(data());
    });
    const observer = new ResizeObserver(() => box.clientWidth !== chart?.width && make());
    observer.observe(box);
    return () => {
      stop();
      stopDrawing();
      observer.disconnect();
      chart?.destroy();
    };
  }, []);
  tick.value;
  const at = pointed.value;
  const shown = (name: SeriesName): string => {
    const value = at === null ? series[name].at(-1) : series[name][at];
    return value == null ? "–" : unit(value);
  };
  const time = at === null ? undefined : times[at];
  const words = lines.map((line) => `${line.label} ${shown(line.name)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        <strong>{time === undefined ? props.title : <time>{clockShort(time * 1000)}</time>}</strong>
        {lines.map((line) => (
          <span key={line.name} class="legend">
            <i class={`swatch-${line.colour}`} />
            {line.label} <b>{shown(line.name)}</b>
          </span>
        ))}
      </figcaption>
      <div ref={place} role="img" aria-label={`${props.title}: ${words}`} />
    </figure>
  );
}
