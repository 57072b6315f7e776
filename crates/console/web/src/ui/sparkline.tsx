// The last minutes of a number, behind the number.

import { series, tick, type SeriesName } from "../data/live.ts";

/** Points that are drawn at most, and the least that the width has room for. */
const POINTS_MAX = 90;
const POINTS_MIN = 12;
const WIDTH = 100;
const HEIGHT = 20;

export function Sparkline({ name }: { name: SeriesName }) {
  tick.value;
  const values = series[name].slice(-POINTS_MAX);
  const room = Math.max(POINTS_MIN, values.length);
  const most = Math.max(...values.map((value) => value ?? 0));
  if (values.length < 2 || most <= 0) return null;
  const x = (at: number): number => (at / (room - 1)) * WIDTH;
  let line = "";
  let area = "";
  let start: number | null = null;
  values.forEach((value, index) => {
    const at = x(index + room - values.length);
    const y = HEIGHT - 1 - ((value ?? 0) / most) * (HEIGHT - 4);
    if (value === null) return void (start = null);
    const point = `${at.toFixed(1)},${y.toFixed(1)}`;
    line += `${start === null ? "M" : "L"}${point}`;
    if (start === null) {
      area += `M${at.toFixed(1)},${HEIGHT}`;
      start = at;
    }
    area += `L${point}`;
    if (index + 1 === values.length || values[index + 1] === null) area += `L${at.toFixed(1)},${HEIGHT}z`;
  });
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="spark-area" d={area} />
      <path class="spark-line" d={line} />
    </svg>
  );
}
