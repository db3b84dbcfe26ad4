// What is certain before a run: the bound of each loop, everything that is wrong, and what a run may take.
import { useMessages } from "../../../i18n/messages";
import { Failure } from "../../../ui/State";
import { useEditor, useEditorStore } from "../store";
import { ForecastTable } from "./ForecastTable";
import { LoopRow } from "./LoopRow";
import { messages } from "./messages";
import { ProblemRow } from "./ProblemRow";
import "./proof.css";

export function ProofPane() {
  return (
    <div className="proof" tabIndex={-1}>
      <Loops />
      <ForecastTable />
    </div>
  );
}

function Loops() {
  const texts = useMessages(messages);
  const check = useEditor((values) => values.check);
  const failed = useEditor((values) => values.checkError);
  const isEmpty = useEditor((values) => values.text === "");
  const store = useEditorStore();
  const loops = check?.loops ?? [];
  // Those that nothing bounds come first.
  const sorted = [...loops].sort((one, other) => Number(one.bounded_by.length > 0) - Number(other.bounded_by.length > 0));
  const shownAsLoop = new Set(["only-capped"]);
  const problems = (check?.diagnostics ?? []).filter((one) => !shownAsLoop.has(one.code) || loops.length === 0);
  const ordered = [...problems].sort((one, other) => Number(one.severity !== "error") - Number(other.severity !== "error"));
  return (
    <div className="proof-part">
      <h2>
        {texts.proof} <span className="dim">{check && !check.draft ? texts.loops(loops.length) : ""}</span>
      </h2>
      {failed && <Failure error={failed} onRetry={() => store.getState().checkNow()} />}
      <ul className="proof-list">
        {sorted.map((proof) => (
          <LoopRow key={`${proof.id} ${proof.nodes.join(" ")}`} proof={proof} />
        ))}
        {ordered.map((one, index) => (
          <ProblemRow key={index} diagnostic={one} />
        ))}
      </ul>
      {check?.ok && loops.length === 0 && problems.length === 0 && <p className="dim">{texts.noLoops}</p>}
      {check?.draft && <p className="dim">{isEmpty ? texts.nothingYet : texts.later}</p>}
    </div>
  );
}
