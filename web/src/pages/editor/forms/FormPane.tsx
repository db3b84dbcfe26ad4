// The form of what is selected. It shows the newest text that can be read, and writes into the same text.
import { useMemo } from "react";
import { lineNumber } from "../../../document/lines";
import type { Target } from "../../../document/model";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { Icon } from "../../../ui/Icon";
import { Later, later } from "../../../ui/later";
import { Failure, Loading } from "../../../ui/State";
import { useEditor, useEditorStore } from "../store";
import { useCatalogue, type Catalogue } from "./catalogue";
import { FormContext } from "./context";
import { FormHead } from "./FormHead";
import { GraphForm } from "./graph/GraphForm";
import { WorkflowForm } from "./graph/WorkflowForm";
import { edgeOf, pathOf } from "./graphs";
import { messages } from "./messages";
import { Section } from "./Section";
import { reveal, useFormOf } from "./useForm";
import "./forms.css";

// What is shown first, without a selection, needs neither.
const NodeForm = later(() => import("./nodes/NodeForm").then((module) => ({ default: module.NodeForm })));
const EdgeForm = later(() => import("./edge/EdgeForm").then((module) => ({ default: module.EdgeForm })));

const WORKFLOW: readonly Target[] = [{ kind: "workflow" }];
const GRAPH: readonly Target[] = [{ kind: "graph", graph: "" }];

export function FormPane() {
  const catalogue = useCatalogue();
  if (catalogue.error) return <Failure error={catalogue.error} onRetry={() => void catalogue.refetch()} />;
  if (!catalogue.data) return <Loading lines={6} />;
  return <Selected catalogue={catalogue.data} />;
}

function Selected({ catalogue }: { catalogue: Catalogue }) {
  const selection = useEditor((state) => state.selection);
  const document = useEditor((state) => state.lastGood);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const isBroken = useEditor((state) => state.document.errors.length > 0);
  const isWhole = selection.length === 0 || selection.every((one) => one.kind === "workflow");
  // What was selected may be gone from the text.
  const isThere = isWhole || selection.some((one) => pathOf(document, one) !== null);
  const name = JSON.stringify(isWhole || !isThere ? null : selection);
  const targets = useMemo(() => JSON.parse(name) as readonly Target[] | null, [name]);
  return (
    <div className="form">
      {targets === null ? <WholeHead /> : null}
      <Body key={name} catalogue={catalogue} targets={targets} isDisabled={isReadOnly || isBroken} />
    </div>
  );
}

function WholeHead() {
  const texts = useMessages(messages);
  const name = useEditor((state) => state.saved?.name ?? texts.newWorkflow);
  return <FormHead targets={WORKFLOW} title={name} type={texts.workflow} />;
}

function Body({
  catalogue,
  targets,
  isDisabled,
}: {
  catalogue: Catalogue;
  targets: readonly Target[] | null;
  isDisabled: boolean;
}) {
  const texts = useMessages(messages);
  if (targets === null) {
    return (
      <Scroll isDisabled={isDisabled}>
        <h3 className="form-part">{texts.graph}</h3>
        <ItemForm catalogue={catalogue} targets={GRAPH} hasHead={false} />
        <h3 className="form-part">{texts.file}</h3>
        <ItemForm catalogue={catalogue} targets={WORKFLOW} hasHead={false} />
      </Scroll>
    );
  }
  return <ItemForm catalogue={catalogue} targets={targets} hasHead isDisabled={isDisabled} />;
}

function Scroll({ isDisabled, children }: { isDisabled: boolean; children: React.ReactNode }) {
  return (
    <>
      <Broken />
      <div className="form-scroll">
        <fieldset className="form-all" disabled={isDisabled}>
          {children}
        </fieldset>
      </div>
    </>
  );
}

/** Why nothing can be edited here, and the way to the error. */
function Broken() {
  const texts = useMessages(messages);
  const store = useEditorStore();
  const error = useEditor((state) => state.document.errors[0]);
  const text = useEditor((state) => state.document.text);
  if (!error) return null;
  return (
    <div className="form-broken" role="status">
      <Icon name="warning" />
      <p>{texts.broken(lineNumber(text, error.from))}</p>
      <Button onClick={() => reveal(store, error)}>{texts.goToError}</Button>
    </div>
  );
}

function ItemForm({
  catalogue,
  targets,
  hasHead,
  isDisabled = false,
}: {
  catalogue: Catalogue;
  targets: readonly Target[];
  hasHead: boolean;
  isDisabled?: boolean;
}) {
  const texts = useMessages(messages);
  const made = useFormOf(catalogue, targets);
  if (made === null) return <p className="form-empty">{texts.noGraph}</p>;
  const { form, value } = made;
  const [target] = form.targets;
  if (target === undefined) return null;
  const nodes = form.targets.flatMap((one) => (one.kind === "node" ? [form.document.nodes.get(one.key)] : []));
  const types = new Set(nodes.map((node) => node?.type ?? ""));
  const type = types.size === 1 ? [...types][0] : null;
  const isMany = form.targets.length > 1;
  const edge = edgeOf(form.document, target);
  const areNodes = nodes.length === form.targets.length;

  const head = isMany
    ? { title: texts.selected(form.targets.length), type: areNodes && type ? type : "" }
    : target.kind === "node"
      ? { title: nodes[0]?.id ?? "", type: nodes[0]?.type ?? "" }
      : target.kind === "edge"
        ? { title: `${edge?.from ?? ""} → ${edge?.to ?? ""}`, type: texts.edge }
        : { title: target.kind === "graph" ? target.graph || texts.graph : texts.workflow, type: texts.graph };

  const body = (
    <FormContext value={form}>
      {isMany && (
        <Section>
          <p className="form-help">{areNodes ? (type === null ? texts.manyTypes : texts.manyNodes) : texts.manyItems}</p>
        </Section>
      )}
      <Later fallback={<Loading />}>
        {areNodes && <NodeForm type={type ?? null} value={value} />}
        {!isMany && edge && <EdgeForm edge={edge} />}
      </Later>
      {!isMany && target.kind === "graph" && <GraphForm value={value} />}
      {!isMany && target.kind === "workflow" && <WorkflowForm value={value} />}
    </FormContext>
  );
  if (!hasHead) return body;
  return (
    <>
      <FormHead targets={form.targets} {...head} />
      <Scroll isDisabled={isDisabled}>{body}</Scroll>
    </>
  );
}
