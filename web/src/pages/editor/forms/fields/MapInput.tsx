// Values by names of one's own.
import { useState } from "react";
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import { Button } from "../../../../ui/Button";
import type { FieldSpec } from "../catalogue";
import { useForm } from "../context";
import { messages } from "../messages";
import { isMapping, newObject, summaryOf } from "../values";
import { AnyInput } from "./AnyInput";
import { Fold } from "./Fold";
import { Group, type LineParts } from "./Line";
import { ObjectBody } from "./ObjectInput";
import { ScalarInput } from "./ScalarInput";
import { TextInput } from "./TextInput";

export function MapInput({ field, path, value, parts }: { field: FieldSpec; path: Path; value: unknown; parts: LineParts }) {
  const texts = useMessages(messages);
  const form = useForm();
  const [isAdding, setAdding] = useState(false);
  const entries = isMapping(value) ? Object.entries(value) : [];
  const spec = field.type === "object" ? form.catalogue.objects[field.objects[0] ?? ""] : undefined;
  const isTaken = (name: string) => entries.some(([other]) => other === name);
  const removeEntry = (name: string) => form.write([[entries.length === 1 ? path : [...path, name], undefined]]);
  const renameEntry = (from: string, to: string) => {
    const name = to.trim();
    if (name === "" || isTaken(name)) return false;
    form.renameKey(path, from, name);
    return true;
  };
  const single: FieldSpec = { ...field, shape: "single", default: null, required: false };
  const addButton = (
    <Button kind="quiet" icon="plus" className="form-add" aria-label={texts.addTo(field.title)} onClick={() => setAdding(true)}>
      {texts.add}
    </Button>
  );
  return (
    <Group {...parts} aside={addButton}>
      {entries.map(([name, one]) =>
        spec ? (
          <Fold
            key={name}
            title={<code>{name}</code>}
            aside={summaryOf(spec, one)}
            actions={<Button kind="quiet" icon="trash" aria-label={texts.removeFrom(name)} onClick={() => removeEntry(name)} />}
          >
            <div className="form-fields">
              <NameInput label={texts.nameOf(field.title)} value={name} isTaken={isTaken} onWrite={(to) => renameEntry(name, to)} />
              <ObjectBody spec={spec} path={[...path, name]} value={one ?? undefined} />
            </div>
          </Fold>
        ) : (
          <div key={name} className="form-item form-pair">
            <NameInput label={texts.nameOf(field.title)} value={name} isTaken={isTaken} onWrite={(to) => renameEntry(name, to)} />
            {field.type === "any" ? (
              <AnyInput label={name} value={one} onWrite={(next) => form.write([[[...path, name], next ?? ""]])} />
            ) : (
              <ScalarInput field={single} label={name} value={one} onWrite={(next) => form.write([[[...path, name], next ?? ""]])} />
            )}
            <Button kind="quiet" icon="close" aria-label={texts.removeFrom(name)} onClick={() => removeEntry(name)} />
          </div>
        ),
      )}
      {isAdding && (
        <NewName
          title={field.title}
          names={field.key === "loops" ? form.names.nodes : undefined}
          isTaken={isTaken}
          onDone={() => setAdding(false)}
          onAdd={(name) => {
            const first = spec ? newObject(spec) : "";
            form.write([entries.length ? [[...path, name], first] : [path, { [name]: first }]]);
          }}
        />
      )}
    </Group>
  );
}

function NameInput({
  label,
  value,
  isTaken,
  onWrite,
}: {
  label: string;
  value: string;
  isTaken: (name: string) => boolean;
  onWrite: (name: string) => boolean;
}) {
  const texts = useMessages(messages);
  return (
    <div className="form-name">
      <TextInput
        label={`${label} ${value}`}
        isMono
        isPatient
        value={value}
        check={(text) => (text !== value && isTaken(text.trim()) ? texts.isTaken : text.trim() === "" ? texts.isMissing : null)}
        onWrite={onWrite}
      />
    </div>
  );
}

function NewName({
  title,
  names,
  isTaken,
  onAdd,
  onDone,
}: {
  title: string;
  names: readonly string[] | undefined;
  isTaken: (name: string) => boolean;
  onAdd: (name: string) => void;
  onDone: () => void;
}) {
  const texts = useMessages(messages);
  return (
    <div onBlur={onDone}>
      <TextInput
        autoFocus
        isMono
        isPatient
        label={texts.newIn(title)}
        placeholder={texts.name}
        names={names?.filter((name) => !isTaken(name))}
        value=""
        check={(text) => (isTaken(text.trim()) ? texts.isTaken : null)}
        onWrite={(text) => {
          const name = text.trim();
          if (isTaken(name)) return false;
          onDone();
          if (name) onAdd(name);
        }}
      />
    </div>
  );
}
