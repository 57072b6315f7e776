// A chart of uPlot that follows the series of the page, in the colours of the theme.

import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { POINTS_MAX, series, tick, times, type SeriesName } from "../data/live.ts";
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
const SPAN_MIN = 30;
/** Pixels. A narrow chart is lower, too. */
const HEIGHT = 132;
const SMALL_WIDTH = 230;
const SMALL_HEIGHT = 104;

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function options({ lines, unit, least = 1, steps }: ChartProps, width: number): uPlot.Options {
  const isSmall = width < SMALL_WIDTH;
  const height = isSmall ? SMALL_HEIGHT : HEIGHT;
  const grid = { stroke: colour("line"), width: 1 };
  const axis = { stroke: colour("muted"), font: `${isSmall ? 10 : 11}px ${colour("sans")}`, ticks: { show: false }, grid };
  return {
    width,
    height,
    padding: [10, 6, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
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
        width: 1.5,
        spanGaps: false,
        points: { show: false },
        ...(line.fill ? { fill: `${colour(line.colour)}1f` } : {}),
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
  const last = (name: SeriesName): string => {
    const value = series[name].at(-1);
    return value == null ? "–" : unit(value);
  };
  const words = lines.map((line) => `${line.label} ${last(line.name)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        <strong>{props.title}</strong>
        {lines.map((line) => (
          <span key={line.name} class="legend">
            <i class={`swatch-${line.colour}`} />
            {line.label} <b>{last(line.name)}</b>
          </span>
        ))}
      </figcaption>
      <div ref={place} role="img" aria-label={`${props.title}: ${words}`} />
    </figure>
  );
}
