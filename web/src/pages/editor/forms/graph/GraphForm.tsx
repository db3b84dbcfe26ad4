// A graph: where it begins and ends, and what bounds it.
import { useForm } from "../context";
import { ObjectFields } from "../fields/ObjectFields";
import { NamePicker } from "../nodes/NamePicker";
import { Section } from "../Section";
import type { Mapping } from "../values";

export function GraphForm({ value }: { value: Mapping }) {
  const form = useForm();
  const spec = form.catalogue.objects.graph;
  const file = form.catalogue.objects.workflow;
  if (!spec || !file) return null;
  // A file that has `nodes` itself is graph and file at once.
  const isFile = form.path.length === 0;
  const shared = isFile ? spec.fields.filter((field) => file.fields.some((one) => one.key === field.key)) : [];
  const ends = spec.fields.filter((field) => field.key === "start" || field.key === "end");
  return (
    <>
      <Section>
        {ends.map((field) => (
          <NamePicker key={field.key} field={field} at={[]} container={value} />
        ))}
      </Section>
      <Section>
        <ObjectFields
          spec={spec}
          at={[]}
          value={value}
          known={isFile ? file.fields : []}
          hidesUnknown={isFile}
          skip={["nodes", "edges", "start", "end", ...shared.map((field) => field.key)]}
        />
      </Section>
    </>
  );
}
