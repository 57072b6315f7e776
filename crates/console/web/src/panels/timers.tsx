// Scheduled messages: when each is due, how often it ticked, and whose it is.

import { useEffect, useRef, useState } from "preact/hooks";
import { command } from "../data/api.ts";
import { hurry, rights, tick } from "../data/live.ts";
import type { Timer } from "../data/types.ts";
import { clean, count, millis } from "../format.ts";
import { href } from "../route.ts";
import { Action, attempt, Confirm, Empty, Kind } from "../ui/bits.tsx";
import { useRound } from "../ui/rounds.ts";

/** How long until it is due, as it passes between two rounds. */
function Due({ timer, toldAt }: { timer: Timer; toldAt: number }) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const ticker = setInterval(() => redraw((value) => value + 1), 500);
    return () => clearInterval(ticker);
  }, []);
  return <>{millis(Math.max(0, timer.dueInMs - (Date.now() - toldAt)))}</>;
}

export function Timers() {
  const isOperator = rights.value?.operator === true;
  const { data, problem } = useRound<{ timers: Timer[] }>("Timer.List", isOperator ? { all: true } : {});
  const [ending, setEnding] = useState<Timer | null>(null);
  const told = useRef({ data, at: Date.now() });
  if (told.current.data !== data) told.current = { data, at: Date.now() };
  tick.value;
  const timers = [...(data?.timers ?? [])].sort((a, b) => a.dueInMs - b.dueInMs);
  const cancel = (timer: Timer): void =>
    void attempt("Not cancelled", async () => {
      const peer = isOperator && timer.peer !== undefined ? { peer: timer.peer } : {};
      const { cancelled } = await command<{ cancelled: boolean }>("Timer.Cancel", { timerId: timer.timerId, ...peer });
      hurry();
      return cancelled ? `${timer.timerId} is cancelled.` : `${timer.timerId} was gone already.`;
    });
  return (
    <>
      <h1 class="title">Timers</h1>
      {problem && (
        <p class="banner tone-warn" role="alert">
          {clean(problem.message, 300)}
        </p>
      )}
      <div class="card scroll-x" tabIndex={0} role="region" aria-label="All timers">
        {timers.length === 0 ? (
          <Empty icon="timers" title="Nothing is scheduled">
            <p>
              A message can be sent later, or again and again. Try it in <a href={href("call", "Timer.Schedule")}>Call</a>, or:
            </p>
            <pre>mainspring query Memory.Get key=colour --every 10s</pre>
          </Empty>
        ) : (
          <table class="rows stack">
            <thead>
              <tr>
                <th>Message</th>
                <th>Timer</th>
                <th class="number">Due in</th>
                <th class="number">Every</th>
                <th class="number">Left</th>
                <th class="number">Fired</th>
                <th class="number">Missed</th>
                <th>Whose</th>
                <th>
                  <span class="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {timers.slice(0, 1000).map((timer) => (
                <tr key={`${timer.peer}\n${timer.timerId}`}>
                  <td class="name">
                    <span class="with-kind">
                      <Kind kind={timer.kind} />
                      {clean(timer.type, 80)}
                    </span>
                  </td>
                  <td class="quiet" data-label="Timer">
                    {clean(timer.timerId, 40)}
                  </td>
                  <td class="number" data-label="Due in">
                    <Due timer={timer} toldAt={told.current.at} />
                  </td>
                  <td class="number" data-label="Every">{timer.repeat === null ? "once" : millis(timer.repeat)}</td>
                  <td class="number" data-label="Left">{timer.left === null ? (timer.repeat === null ? "1" : "∞") : count(timer.left)}</td>
                  <td class="number" data-label="Fired">{count(timer.fired)}</td>
                  <td class={`number ${timer.missed > 0 ? "tone-bad" : ""}`} data-label="Missed">{count(timer.missed)}</td>
                  <td data-label="Whose">{clean(timer.peer ?? "yours", 40)}</td>
                  <td class="number act">
                    <Action open tone="quiet" label={`Cancel ${clean(timer.timerId, 40)}`} onClick={() => setEnding(timer)}>
                      Cancel
                    </Action>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
      {timers.length > 1000 && <p class="hint">The first 1000 of {count(timers.length)}.</p>}
      {ending && (
        <Confirm title="Cancel this timer?" action="Cancel the timer" onConfirm={() => cancel(ending)} onClose={() => setEnding(null)}>
          <p>
            <b>{clean(ending.type, 80)}</b> is not sent any more.
          </p>
        </Confirm>
      )}
    </>
  );
}
