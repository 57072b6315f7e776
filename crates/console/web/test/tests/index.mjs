// Every test of the page: a name that is a sentence, and what proves it.
import { tests as actions } from "./actions.mjs";
import { tests as call } from "./call.mjs";
import { tests as cost } from "./cost.mjs";
import { tests as hostile } from "./hostile.mjs";
import { tests as keyboard } from "./keyboard.mjs";
import { tests as letters } from "./letters.mjs";
import { tests as looks } from "./looks.mjs";
import { tests as opening } from "./opening.mjs";
import { tests as pictures } from "./pictures.mjs";
import { tests as states } from "./states.mjs";

export const tests = [...opening, ...actions, ...call, ...letters, ...states, ...hostile, ...keyboard, ...cost, ...looks, ...pictures];
