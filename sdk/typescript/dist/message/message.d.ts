/** What kind of message it is: what it asks for, or how a request ended. */
export type Kind = "command" | "query" | "event" | "reply" | "error";
/** What a message says about itself. Members that are not listed here travel unchanged. */
export interface Metadata {
    /** Chosen by the sender, unique among its own messages. */
    id: string;
    /** When it was made, in milliseconds since 1970. */
    timestamp: number;
    /** The id of the message that caused it. */
    causation?: string;
    /** The workflow that it belongs to. */
    correlation?: string;
    /** How long a request may take, in milliseconds. */
    timeout?: number;
    [member: string]: unknown;
}
/** A message: one JSON object on one line. */
export interface Message<Data = unknown, Type extends string = string> {
    kind: Kind;
    type: Type;
    data: Data;
    metadata: Metadata;
}
/** Whether an actor had a request: `no` means that sending it again is safe. */
export type Started = "yes" | "no";
/**
 * Whether a text may be the type of a message: two or more names with a capital letter, joined by
 * dots.
 */
export declare function isType(type: string): boolean;
/** Whether a type is matched by a pattern of `watch`: a type, `Prefix.*`, or `*`. */
export declare function matches(pattern: string, type: string): boolean;
