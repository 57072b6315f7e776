// Why a guest is awake, in words.

import type { Floor } from "../data/types.ts";
import { bytes, count, many, percent, rate } from "../format.ts";

export interface Verdict {
  tone: "ok" | "warn" | "bad";
  text: string;
  /** What the verdict rests on. */
  reasons: string[];
}

/** A guest that tries so much oftener than it is woken does not wait properly. */
const TRIES_PER_WAKEUP = 20;
/** A share of a core that a guest may use without being remarked. */
const BUSY_SHARE = 0.5;

export function verdict(floor: Floor, wakeupsPerSecond: number, againsPerSecond: number, cpuShare: number): Verdict {
  const { polls = 0, emptyPolls = 0, zeroTimeoutPolls = 0, agains = 0, wakeups = 0, preemptions = 0 } = floor;
  const refused = Object.entries(floor.refused ?? {});
  const reasons = [
    `woken ${rate(wakeupsPerSecond)} times a second, ${count(wakeups)} in all`,
    `${many(polls, "wait")}, of which ${count(emptyPolls)} brought nothing and ${count(zeroTimeoutPolls)} did not wait at all`,
    `${count(agains)} tries that had to be made again`,
    `${percent(cpuShare)} of a core, ${bytes(floor.memoryBytes)} of memory, ${many(floor.handles ?? 0, "handle")}`,
  ];
  if (preemptions > 0) reasons.push(`stopped ${many(preemptions, "time")} because it did not pause by itself`);
  for (const [limit, times] of refused) reasons.push(`refused ${many(times, "time")} by the limit ${limit}`);
  if (refused.length > 0) return { tone: "bad", text: `It runs into its limits: ${refused.map(([limit]) => limit).join(", ")}.`, reasons };
  if (agains > 200 && agains > TRIES_PER_WAKEUP * Math.max(1, wakeups))
    return { tone: "bad", text: `It tries instead of waiting: ${count(agains)} tries for ${many(wakeups, "wake-up")}.`, reasons };
  if (polls > 100 && zeroTimeoutPolls > polls / 2)
    return { tone: "warn", text: "It asks without waiting: most of its waits have a timeout of zero.", reasons };
  if (cpuShare > BUSY_SHARE) return { tone: "warn", text: `It works hard: ${percent(cpuShare)} of a core.`, reasons };
  if (polls > 100 && emptyPolls > polls * 0.8) return { tone: "warn", text: "It wakes by its own timers and mostly finds nothing to do.", reasons };
  if (wakeupsPerSecond === 0 && againsPerSecond === 0) return { tone: "ok", text: "It sleeps, and costs no CPU until something comes for it.", reasons };
  return { tone: "ok", text: "It waits properly: it wakes when there is something for it.", reasons };
}
