// Questions of a panel that are asked with every round while it is open.

import { useEffect, useState } from "preact/hooks";
import type { Json, Problem } from "../data/api.ts";
import { askEachRound } from "../data/live.ts";

export interface Known<T> {
  data: T | null;
  problem: Problem | null;
}

/** The newest answer to a question; asked again when the question changes. */
export function useRound<T>(type: string, data: Json): Known<T> {
  const [known, setKnown] = useState<Known<T>>({ data: null, problem: null });
  const question = JSON.stringify(data);
  useEffect(
    () =>
      askEachRound(() => [type, JSON.parse(question) as Json], (told) =>
        setKnown((last) => (told.ok ? { data: told.data as T, problem: null } : { data: last.data, problem: told.problem })),
      ),
    [type, question],
  );
  return known;
}
