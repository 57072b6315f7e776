// Compiled with the types of Node alone, and with those of a bundler: checked by `tsc --noEmit`,
// never run.
import { capability, connect, runActor } from "@mainspring/sdk";
import { TestDaemon } from "@mainspring/sdk/testing";

export const all: unknown[] = [capability, connect, runActor, TestDaemon];
