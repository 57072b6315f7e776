export { Capability, capability } from "./capability/capability.ts";
export type { CapabilityOptions, EventSpec, Hints, RequestSpec, RunOptions } from "./capability/capability.ts";
export { runActor, manifestOfActor } from "./capability/actor.ts";
export type { ActorCapability, CapabilityActor } from "./capability/actor.ts";
export { Context } from "./capability/context.ts";
export type { Ask, AskOptions, Emit } from "./capability/context.ts";
export type { Manifest } from "./capability/manifest.ts";
export type { InputOf, JsonSchema, OutputOf, Schema, StandardSchema } from "./capability/schema.ts";
export { Client, connect } from "./client/client.ts";
export type { Catalogue, ConnectOptions, EmitOptions, Result } from "./client/client.ts";
export type { RequestOptions, Rights } from "./client/core.ts";
export { findDaemon } from "./client/find.ts";
export type { Address, Place } from "./client/find.ts";
export { Watch } from "./client/watch.ts";
export type { Gap, WatchOptions } from "./client/watch.ts";
export {
  CancelledError,
  ClosedError,
  ConnectError,
  Failure,
  InvalidMessageError,
  MainspringError,
  OverflowError,
  RequestError,
  TimeoutError,
} from "./errors.ts";
export type { ErrorKind } from "./errors.ts";
export { parseJson, stringifyJson } from "./message/json.ts";
export type { Kind, Message, Metadata, Started } from "./message/message.ts";
