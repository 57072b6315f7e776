import { stringifyJson } from "./message/json.js";
/** The base of every error of this package that is about a request or a connection. */
export class MainspringError extends Error {
    /** A number as HTTP has them, 400 to 599. */
    code;
    /**
     * Whether a capability had the request. `no`: sending it again is safe. Undefined: nobody knows.
     */
    started;
    /** The id of the request. */
    originalId;
    /** The type of the request. */
    originalType;
    constructor(message, details) {
        super(message, details.cause === undefined ? undefined : { cause: details.cause });
        this.name = new.target.name;
        this.code = details.code;
        this.started = details.started;
        this.originalId = details.originalId;
        this.originalType = details.originalType;
    }
}
/**
 * A request ended in an error, of a capability (which then has the request's type) or of the daemon
 * (`Sys.*`).
 */
export class RequestError extends MainspringError {
    kind = "outcome";
    /** The type of the error message: the request's own, or one of `Sys.*`. */
    type;
    /** The data of the error message, as it came. */
    data;
    constructor(error, request) {
        const { code, message, started } = readErrorData(error.data);
        super(`${error.type} (${code}): ${message}`, {
            code,
            started: started ?? undefined,
            originalId: request.id,
            originalType: request.type,
        });
        this.type = error.type;
        this.data = error.data;
    }
    /** The words of whoever failed, without type and code. */
    get reason() {
        return readErrorData(this.data).message;
    }
}
function readErrorData(data) {
    const { code, message, started } = (data ?? {});
    return {
        code: typeof code === "number" ? code : 500,
        message: typeof message === "string" ? message : stringifyJson(data),
        started: started === "yes" || started === "no" ? started : null,
    };
}
/** There was no outcome in time, and not even the daemon's word about it. */
export class TimeoutError extends MainspringError {
    kind = "timeout";
}
/** The caller cancelled the request; `cause` is the reason of its `AbortSignal`. */
export class CancelledError extends MainspringError {
    kind = "cancelled";
}
/** The connection was closed or lost, and the request is not repeated. */
export class ClosedError extends MainspringError {
    kind = "closed";
}
/** There is no connection: nobody listens there, or does not let us in. */
export class ConnectError extends MainspringError {
    kind = "connect";
    constructor(message, cause) {
        super(message, { code: 503, started: "no", cause });
    }
}
/** Refused before anything was sent: the message breaks a rule. */
export class InvalidMessageError extends MainspringError {
    kind = "invalid";
    constructor(message, originalType, cause) {
        super(message, { code: 422, started: "no", originalType, cause });
    }
}
/** Refused before anything was sent: too much waits to be sent or answered. */
export class OverflowError extends MainspringError {
    kind = "overflow";
    constructor(message, originalType) {
        super(message, { code: 429, started: "no", originalType });
    }
}
/**
 * What a handler throws to end its request in an error of its own.
 *
 * @example
 * throw new Failure(404, "there is no note with that number");
 */
export class Failure extends Error {
    /** 400 to 599, in the sense that HTTP gives them. */
    code;
    /** More members of the error's data, beside `code` and `message`. */
    details;
    constructor(code, message, details) {
        super(message);
        this.name = "Failure";
        if (!Number.isInteger(code) || code < 400 || code > 599) {
            throw new RangeError(`the code of a failure is 400 to 599, not ${code}`);
        }
        this.code = code;
        this.details = details;
    }
}
