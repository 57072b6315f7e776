/** The manifest of a capability, made from its handlers and their schemas. */
import type { CapabilityOptions } from "./capability.ts";
import type { Registration } from "./core.ts";
/** What `capability.json` holds. See `docs/reference/configuration.md` for the keys. */
export interface Manifest {
    id: string;
    description: string;
    inbound: Record<string, unknown>;
    outbound?: Record<string, unknown>;
    subscribes?: string[];
    types?: Record<string, Record<string, unknown>>;
    uncaused?: boolean;
    cancel?: boolean;
    limits?: {
        concurrency: number;
    };
    program?: {
        process: string[];
    };
}
export declare function makeManifest(options: CapabilityOptions, registrations: readonly Registration[]): Promise<Manifest>;
