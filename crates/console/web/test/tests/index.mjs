// Every test of the page: a name that is a sentence, and what proves it.
import { tests as actions } from "./actions.mjs";
import { tests as looks } from "./looks.mjs";
import { tests as opening } from "./opening.mjs";
import { tests as states } from "./states.mjs";

export const tests = [...opening, ...actions, ...states, ...looks];
