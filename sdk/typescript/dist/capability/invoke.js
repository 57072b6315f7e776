/** Calls handlers: what their schemas say of data, before and after. */
import { Failure, InvalidMessageError } from "../errors.js";
import { check, isStandard } from "./schema.js";
/**
 * Calls a handler with checked data, and checks what it returns. Stays synchronous for as long as
 * all of it is.
 */
export function invoke(handler, context) {
    const { input, output } = handler;
    if (input === undefined || !isStandard(input))
        return call(handler, context, output);
    const data = check(input, context.data, 422);
    if (isPromise(data)) {
        return data.then((late) => {
            context.data = late;
            return call(handler, context, output);
        });
    }
    context.data = data;
    return call(handler, context, output);
}
function call(handler, context, output) {
    const result = handler.handler(context);
    if (output === undefined || !isStandard(output))
        return result;
    return isPromise(result)
        ? result.then((value) => checkOutput(output, value, context))
        : checkOutput(output, result, context);
}
function checkOutput(output, value, context) {
    const wrong = (error) => {
        if (!(error instanceof Failure))
            throw error;
        throw new InvalidMessageError(`the reply of ${context.type} does not fit its schema: ${error.message}`, context.type);
    };
    if (!isStandard(output))
        return value;
    try {
        const checked = check(output, value, 500);
        return isPromise(checked) ? checked.then((late) => late, wrong) : checked;
    }
    catch (error) {
        return wrong(error);
    }
}
export function isPromise(value) {
    return typeof value === "object" && value !== null && typeof value.then === "function";
}
