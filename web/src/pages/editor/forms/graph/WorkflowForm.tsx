// The file around the graph: variables, models, tools and limits.
import { useForm } from "../context";
import { ObjectFields } from "../fields/ObjectFields";
import { Section } from "../Section";
import type { Mapping } from "../values";

export function WorkflowForm({ value }: { value: Mapping }) {
  const form = useForm();
  const spec = form.catalogue.objects.workflow;
  const graph = form.catalogue.objects.graph;
  if (!spec || !graph) return null;
  return (
    <Section>
      <ObjectFields spec={spec} at={[]} value={value} skip={["graph"]} known={"nodes" in value ? graph.fields : []} />
    </Section>
  );
}
