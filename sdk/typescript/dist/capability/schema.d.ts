/** The part of Standard Schema v1 that is used here (https://standardschema.dev). */
export interface StandardSchema<Input = unknown, Output = Input> {
    readonly "~standard": {
        readonly version: 1;
        readonly vendor: string;
        readonly validate: (value: unknown) => Result<Output> | Promise<Result<Output>>;
        readonly types?: {
            readonly input: Input;
            readonly output: Output;
        } | undefined;
        readonly jsonSchema?: {
            readonly input: Converter;
            readonly output: Converter;
        } | undefined;
    };
}
type Converter = (options: {
    target: string;
}) => Record<string, unknown>;
type Result<Output> = {
    readonly value: Output;
    readonly issues?: undefined;
} | {
    readonly issues: readonly Issue[];
};
interface Issue {
    readonly message: string;
    readonly path?: readonly (PropertyKey | {
        readonly key: PropertyKey;
    })[] | undefined;
}
/** A JSON Schema, as an object. It is checked by the daemon; nothing is checked here. */
export type JsonSchema = {
    readonly [keyword: string]: unknown;
    readonly "~standard"?: undefined;
};
/** Any schema. */
export type Schema = StandardSchema<any, any> | JsonSchema;
/** What a handler gets: the schema's output. JSON Schemas tell no type. */
export type OutputOf<S> = S extends StandardSchema<any, infer Output> ? Output : any;
/** What has to be given: the schema's input. */
export type InputOf<S> = S extends StandardSchema<infer Input, any> ? Input : any;
export declare function isStandard(schema: Schema): schema is StandardSchema;
/**
 * Checks a value, and gives what the schema makes of it (defaults, conversions). What does not fit
 * is a `Failure` of this code that names the first few places.
 */
export declare function check(schema: StandardSchema, value: unknown, code: number): unknown;
/**
 * The JSON Schema of a schema: its own, its library's by Standard JSON Schema, or by the library's
 * own function.
 */
export declare function toJsonSchema(schema: Schema, io: "input" | "output", what: string): Promise<Record<string, unknown>>;
export {};
