// A form made from a JSON Schema: objects, strings, numbers, booleans, choices, lists,
// alternatives. What it does not know, it leaves to a field for JSON. The daemon checks everything
// in any case; what it complains about is shown at the field.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Json } from "../data/api.ts";
import { clean } from "../format.ts";
import { initial, limits, PROPERTIES_MAX, shape, type Complaints, type Schema, type Shape } from "./schema.ts";


interface FieldProps {
  schema: Schema | boolean | undefined;
  value: Json | undefined;
  path: string;
  name: string;
  required: boolean;
  complaints: Complaints;
  onChange: (value: Json | undefined) => void;
  depth: number;
}

function Labelled({ id, name, schema, required, complaint, children }: { id: string; name: string; schema: Schema | boolean | undefined; required: boolean; complaint: string | undefined; children: ComponentChildren }) {
  const about = typeof schema === "object" ? schema.description : undefined;
  const must = typeof schema === "object" ? limits(schema) : "";
  return (
    <div class={`field ${complaint ? "wrong" : ""}`}>
      <label for={id}>
        {clean(name, 80)}
        {!required && <span class="quiet"> optional</span>}
      </label>
      {children}
      {(about || must !== "") && (
        <p class="hint" id={`${id}-about`}>
          {[about ? clean(about, 300) : "", clean(must, 100)].filter(Boolean).join(" · ")}
        </p>
      )}
      {complaint && (
        <p class="complaint" id={`${id}-complaint`} role="alert">
          {clean(complaint, 300)}
        </p>
      )}
    </div>
  );
}

/** Any JSON, as text. What is no JSON yet is kept and remarked. */
export function JsonField({ id, value, onChange, rows = 3, label }: { id: string; value: Json | undefined; onChange: (value: Json | undefined) => void; rows?: number; label?: string }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  const [problem, setProblem] = useState("");
  const read = (next: string): void => {
    setText(next);
    try {
      onChange(next.trim() === "" ? undefined : (JSON.parse(next) as Json));
      setProblem("");
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <>
      <textarea id={id} rows={rows} spellcheck={false} aria-label={label} aria-invalid={problem !== ""} value={text} onInput={(event) => read(event.currentTarget.value)} />
      {problem !== "" && (
        <p class="complaint" role="alert">
          {clean(problem, 200)}
        </p>
      )}
    </>
  );
}

function Scalar({ id, kind, schema, value, required, invalid, onChange }: { id: string; kind: Shape; schema: Schema; value: Json | undefined; required: boolean; invalid: boolean; onChange: (value: Json | undefined) => void }) {
  const common = { id, "aria-invalid": invalid, "aria-describedby": `${id}-complaint ${id}-about` };
  if (kind === "boolean")
    return (
      <select {...common} value={value === undefined ? "" : String(value)} onChange={(event) => onChange(event.currentTarget.value === "" ? undefined : event.currentTarget.value === "true")}>
        {!required && <option value="">–</option>}
        <option value="true">true</option>
        <option value="false">false</option>
      </select>
    );
  if (kind === "choice") {
    const choices = schema.enum ?? [];
    const at = choices.findIndex((choice) => JSON.stringify(choice) === JSON.stringify(value));
    return (
      <select {...common} value={String(at)} onChange={(event) => onChange(choices[Number(event.currentTarget.value)])}>
        {(!required || at < 0) && <option value="-1">–</option>}
        {choices.map((choice, index) => (
          <option key={index} value={String(index)}>
            {clean(typeof choice === "string" ? choice : JSON.stringify(choice), 100)}
          </option>
        ))}
      </select>
    );
  }
  if (kind === "number" || kind === "integer")
    return (
      <input
        {...common}
        type="number"
        step={kind === "integer" ? 1 : "any"}
        value={typeof value === "number" ? value : ""}
        onInput={(event) => onChange(event.currentTarget.value === "" ? undefined : Number(event.currentTarget.value))}
      />
    );
  const long = typeof value === "string" && (value.length > 80 || value.includes("\n"));
  const read = (text: string): void => onChange(text === "" && !required ? undefined : text);
  return long ? (
    <textarea {...common} rows={4} value={String(value)} onInput={(event) => read(event.currentTarget.value)} />
  ) : (
    <input {...common} type="text" autocomplete="off" spellcheck={false} value={typeof value === "string" ? value : ""} onInput={(event) => read(event.currentTarget.value)} />
  );
}

function List({ schema, value, path, complaints, onChange, depth }: FieldProps) {
  const items = Array.isArray(value) ? value : [];
  const inner = typeof schema === "object" ? schema.items : undefined;
  return (
    <div class="list">
      {items.map((item, at) => (
        <div key={at} class="list-item">
          <Field schema={inner} value={item} path={`${path}.${at}`} name={String(at + 1)} required complaints={complaints} depth={depth + 1} onChange={(next) => onChange(items.map((old, index) => (index === at ? (next ?? null) : old)))} />
          <button type="button" class="button quiet" aria-label={`Remove ${at + 1}`} onClick={() => onChange(items.filter((_, index) => index !== at))}>
            ×
          </button>
        </div>
      ))}
      <button type="button" class="button" onClick={() => onChange([...items, initial(inner, depth + 1)])}>
        Add
      </button>
    </div>
  );
}

/** Which of the alternatives a value fits: by its constants and by the names of its members. */
function fitting(options: Schema[], value: Json | undefined): number {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return 0;
  const score = (option: Schema): number => {
    let sum = 0;
    for (const [name, inner] of Object.entries(option.properties ?? {})) {
      if (!(name in value)) sum -= option.required?.includes(name) ? 2 : 0;
      else if (typeof inner === "object" && inner.const !== undefined) sum += inner.const === value[name] ? 10 : -10;
      else sum += 1;
    }
    return sum;
  };
  const scores = options.map(score);
  return scores.indexOf(Math.max(...scores));
}

function Alternatives(props: FieldProps) {
  const schema = props.schema as Schema;
  const options = schema.oneOf ?? schema.anyOf ?? [];
  const [chosen, setChosen] = useState(() => fitting(options, props.value));
  return (
    <div class="alternatives">
      <div class="chips">
        {options.map((option, at) => (
          <button
            key={at}
            type="button"
            class="chip"
            aria-pressed={at === chosen}
            onClick={() => {
              setChosen(at);
              props.onChange(initial(option, props.depth + 1));
            }}
          >
            {clean(option.title ?? (option.const !== undefined ? String(option.const) : Array.isArray(option.type) ? option.type.join(" or ") : (option.type ?? `form ${at + 1}`)), 40)}
          </button>
        ))}
      </div>
      <Field key={chosen} {...props} schema={options[chosen]} depth={props.depth + 1} />
    </div>
  );
}

function Members({ schema, value, path, complaints, onChange, depth }: FieldProps) {
  const object = typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
  const { properties = {}, required = [] } = schema as Schema;
  const change = (name: string, next: Json | undefined): void => {
    const copy = { ...object };
    if (next === undefined) delete copy[name];
    else copy[name] = next;
    onChange(copy);
  };
  return (
    <>
      {Object.entries(properties)
        .slice(0, PROPERTIES_MAX)
        .map(([name, inner]) => (
          <Field key={name} schema={inner} value={object[name]} path={`${path}.${name}`} name={name} required={required.includes(name)} complaints={complaints} depth={depth + 1} onChange={(next) => change(name, next)} />
        ))}
    </>
  );
}

export function Field(props: FieldProps) {
  const { schema, value, path, name, required, onChange, depth } = props;
  const kind = shape(schema, depth);
  const id = `field-${path.replaceAll(/[^\w.-]/g, "_")}`;
  const complaint = props.complaints.get(path);
  if (kind === "constant") return null;
  if (kind === "object" && depth === 0) return <Members {...props} />;
  if (kind === "object" || kind === "list" || kind === "alternatives") {
    const isThere = value !== undefined;
    return (
      <fieldset class={`field ${complaint ? "wrong" : ""} ${depth === 0 ? "bare" : ""}`}>
        {depth > 0 && (
          <legend>
            {clean(name, 80)}
            {!required && (
              <button type="button" class="button quiet" onClick={() => onChange(isThere ? undefined : initial(schema, depth))}>
                {isThere ? "leave out" : "add"}
              </button>
            )}
          </legend>
        )}
        {depth > 0 && typeof schema === "object" && schema.description && <p class="hint">{clean(schema.description, 300)}</p>}
        {(isThere || required || depth === 0) && (kind === "list" ? <List {...props} /> : kind === "alternatives" ? <Alternatives {...props} /> : <Members {...props} />)}
        {complaint && (
          <p class="complaint" role="alert">
            {clean(complaint, 300)}
          </p>
        )}
      </fieldset>
    );
  }
  return (
    <Labelled id={id} name={name} schema={schema} required={required} complaint={complaint}>
      {kind === "any" ? (
        <JsonField id={id} value={value} onChange={onChange} />
      ) : (
        <Scalar id={id} kind={kind} schema={schema as Schema} value={value} required={required} invalid={complaint !== undefined} onChange={onChange} />
      )}
    </Labelled>
  );
}
