// A field that is an object: closed it says what is inside, open it has the fields.
import { useMemo, useState } from "react";
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import { Button, Segmented } from "../../../../ui/Button";
import type { FieldSpec, ObjectSpec, ShortForm } from "../catalogue";
import { FormContext, useForm, type Form, type Writes } from "../context";
import { messages } from "../messages";
import { fieldWriter, withWrites } from "../write";
import { expanded, isMapping, isOfShort, summaryOf } from "../values";
import { Fold } from "./Fold";
import { ListInput } from "./ListInput";
import { ObjectFields } from "./ObjectFields";
import { RawInput } from "./RawInput";
import { ScalarInput } from "./ScalarInput";

/** Objects that mean something also when they are empty. */
const MEANS_SOMETHING = new Set(["retry"]);

export function ObjectInput({ field, path, value }: { field: FieldSpec; path: Path; value: unknown }) {
  const texts = useMessages(messages);
  const form = useForm();
  const spec = specFor(form, field, value);
  if (!spec) return null;
  const isSet = value !== undefined;
  const needsAdding = MEANS_SOMETHING.has(spec.name) && !isSet;
  return (
    <Fold
      title={field.title}
      aside={isSet ? summaryOf(spec, value) || texts.isSet : texts.notSet}
      help={field.description}
      see={field.see}
      isOpen={field.required}
      actions={
        needsAdding ? (
          <Button kind="quiet" icon="plus" aria-label={texts.addTo(field.title)} onClick={() => form.write([[path, {}]])} />
        ) : (
          isSet &&
          !field.required && (
            <Button kind="quiet" icon="trash" aria-label={texts.removeFrom(field.title)} onClick={() => form.write([[path, undefined]])} />
          )
        )
      }
    >
      {!needsAdding && (
        <>
          {field.objects.length > 1 && <KindChoice field={field} path={path} value={value} />}
          <ObjectBody key={spec.name} spec={spec} path={path} value={value} />
        </>
      )}
    </Fold>
  );
}

/** What an object is where it may be several: a graph has nodes. */
function specFor(form: Form, field: FieldSpec, value: unknown): ObjectSpec | undefined {
  const name = field.objects.includes("graph") && field.objects.length > 1 ? kindOf(value) : field.objects[0];
  return form.catalogue.objects[name ?? ""];
}

const kindOf = (value: unknown) => (isMapping(value) && "nodes" in value ? "graph" : "node");

function KindChoice({ field, path, value }: { field: FieldSpec; path: Path; value: unknown }) {
  const form = useForm();
  const choices = field.objects.map((name) => ({ value: name, text: form.catalogue.objects[name]?.title ?? name }));
  const choose = (kind: string) => {
    if (kind === kindOf(value) && value !== undefined) return;
    const inner = isMapping(value) ? value : {};
    // What is there already is kept: as the only node of the graph, or as the node itself if it is alone.
    if (kind === "graph") {
      const node = { id: "Step", type: "agent", ...inner };
      form.write([[path, { nodes: [node], start: node.id }]]);
    } else {
      const nodes = Array.isArray(inner.nodes) ? (inner.nodes as unknown[]) : [];
      form.write([[path, nodes.length === 1 ? nodes[0] : { id: "Step", type: "agent" }]]);
    }
  };
  return <Segmented label={field.title} choices={choices} value={kindOf(value)} onChange={choose} />;
}

/** The inside of an object, in the form that it is written in. */
export function ObjectBody({ spec, path, value }: { spec: ObjectSpec; path: Path; value: unknown }) {
  const form = useForm();
  // Ways to write it that are no mapping, and stand for no field of it.
  const modes = spec.short.filter((short) => short.key === null);
  const found = value === undefined ? -1 : modes.findIndex((short) => isOfShort(short, value));
  const [chosen, setChosen] = useState<number | null>(null);
  const hasFields = spec.fields.length > 0;
  if (modes.length === 0) return <Mapped spec={spec} path={path} value={value} />;
  const mode = value === undefined ? (chosen ?? (hasFields ? modes.length : 0)) : found < 0 ? modes.length : found;
  const shown = chosen ?? mode;
  const short = modes[shown];
  const choices = [...modes.map((one) => one.title), ...(hasFields ? [spec.title] : [])].map((text, index) => ({
    value: String(index),
    text,
  }));
  return (
    <div className="form-fields">
      {choices.length > 1 && (
        <Segmented label={spec.title} choices={choices} value={String(shown)} onChange={(next) => setChosen(Number(next))} />
      )}
      {short ? (
        <ShortInput short={short} path={path} value={shown === found ? value : undefined} onDone={() => setChosen(null)} />
      ) : (
        <Mapped spec={spec} path={path} value={found < 0 ? value : undefined} replaces={found >= 0} />
      )}
      {found < 0 && value !== undefined && !isMapping(value) && !expanded(spec, value) && (
        <RawInput label={spec.title} value={value} path={path} onWrite={(next) => form.write([[path, next]])} />
      )}
    </div>
  );
}

/** A short form as a field of its own. */
export function shortField(short: ShortForm): FieldSpec {
  return {
    ...short,
    key: short.key ?? "",
    aliases: [],
    lone: false,
    unit: null,
    required: false,
    default: null,
    bounds: {},
    objects: [],
    env_allowed: true,
    see: null,
  };
}

function ShortInput({ short, path, value, onDone }: { short: ShortForm; path: Path; value: unknown; onDone: () => void }) {
  const form = useForm();
  const field = shortField(short);
  const write = (next: unknown) => {
    form.write([[path, next === "" ? undefined : next]]);
    onDone();
  };
  if (short.shape === "list") {
    const name = String(path.at(-1));
    return (
      <ListInput
        field={{ ...field, key: name }}
        at={path.slice(0, -1)}
        container={value === undefined ? {} : { [name]: value }}
        parts={{ title: short.title, help: short.description }}
      />
    );
  }
  return <ScalarInput label={short.title} field={field} value={value} onWrite={write} />;
}

/** The fields of a mapping. Where one value stands for it, an edit of another field writes the mapping out. */
function Mapped({ spec, path, value, replaces = false }: { spec: ObjectSpec; path: Path; value: unknown; replaces?: boolean }) {
  const form = useForm();
  const found = expanded(spec, value);
  const key = found?.short?.key ?? null;
  const isWrapped = replaces || key !== null || (value === undefined && spec.short.some((short) => short.key !== null));
  const wrapped = useMemo<Form>(() => {
    const write = (values: Writes) => form.write(wholeWrites(spec, path, replaces ? undefined : value, values));
    return { ...form, write, set: fieldWriter(write, () => false) };
  }, [form, spec, path, value, replaces]);
  if (!found) return <RawInput label={spec.title} value={value} path={path} onWrite={(next) => form.write([[path, next]])} />;
  const fields = <ObjectFields spec={spec} at={path} value={found.value} />;
  return isWrapped ? <FormContext value={wrapped}>{fields}</FormContext> : fields;
}

/** Writes to fields of an object that is not written as a mapping, as one write of the object. */
export function wholeWrites(spec: ObjectSpec, path: Path, value: unknown, values: Writes): Writes {
  const short = spec.short.find((one) => one.key !== null);
  const result = withWrites(expanded(spec, value)?.value ?? {}, path, values);
  if (!isMapping(result)) return [[path, result]];
  const names = Object.keys(result);
  if (names.length === 0) return [[path, undefined]];
  const only = names.length === 1 && names[0] === short?.key ? result[names[0] ?? ""] : undefined;
  return [[path, short && only !== undefined && isOfShort(short, only) ? only : result]];
}
