import type { Capability, RunOptions } from "./capability.ts";
import type { Manifest } from "./manifest.ts";
import { type Stdio } from "./stdio.ts";
/** What serves lines: a capability's core, or an actor in the shape of a Worker. */
export interface Server {
    receive: (line: string) => void;
    wantsInput(): boolean;
    end(): Promise<void>;
    abort(reason: string): void;
}
export declare function runCapability(capability: Capability<any>, options: RunOptions): Promise<void>;
/** Prints the manifest if the program's first argument asks for it. */
export declare function printed(manifest: () => Promise<Manifest>): Promise<boolean>;
/** Serves until the input ends, or SIGTERM comes; resolves when everything is written. */
export declare function serve(start: (stdio: Stdio, log: (line: string) => void) => Server, options: RunOptions): Promise<void>;
/** Whether a module is what the runtime was started with. */
export declare function isMain(meta: {
    url: string;
    main?: boolean;
}): boolean;
/** How this program is started from its own folder. */
export declare function commandLine(script?: string): string[];
