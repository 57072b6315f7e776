export { Capability, capability } from "./capability/capability.js";
export { runActor, manifestOfActor } from "./capability/actor.js";
export { Context } from "./capability/context.js";
export { Client, connect } from "./client/client.js";
export { findDaemon } from "./client/find.js";
export { Watch } from "./client/watch.js";
export { CancelledError, ClosedError, ConnectError, Failure, InvalidMessageError, MainspringError, OverflowError, RequestError, TimeoutError, } from "./errors.js";
export { parseJson, stringifyJson } from "./message/json.js";
