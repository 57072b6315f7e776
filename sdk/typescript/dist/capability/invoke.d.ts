import type { Context } from "./context.ts";
import type { Registration } from "./core.ts";
/**
 * Calls a handler with checked data, and checks what it returns. Stays synchronous for as long as
 * all of it is.
 */
export declare function invoke(handler: Registration, context: Context<any, any>): unknown;
export declare function isPromise(value: unknown): value is PromiseLike<unknown>;
