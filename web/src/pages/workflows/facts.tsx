// What the server has found about a text: its errors and warnings, and what bounds its loops.
import type { CheckResult, Diagnostic, Proof } from "../../api/schema";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { Icon } from "../../ui/Icon";
import { messages } from "./messages";

export function Diagnostics({ result, onLine }: { result: CheckResult; onLine?: (line: number) => void }) {
  const texts = useMessages(messages);
  if (result.diagnostics.length === 0) return <p className="dim">{texts.noDiagnostics}</p>;
  return (
    <ul className="workflows-diagnostics">
      {result.diagnostics.map((one, index) => (
        <DiagnosticLine key={index} diagnostic={one} onLine={onLine} />
      ))}
    </ul>
  );
}

function DiagnosticLine({ diagnostic, onLine }: { diagnostic: Diagnostic; onLine: ((line: number) => void) | undefined }) {
  const texts = useMessages(messages);
  const isError = diagnostic.severity === "error";
  const line = texts.line(diagnostic.line);
  return (
    <li>
      <span className={isError ? "workflows-bad" : "workflows-warn"}>
        <Icon name="warning" size={14} /> {isError ? texts.error : texts.warning}
      </span>{" "}
      {diagnostic.line > 0 &&
        (onLine ? (
          <button type="button" className="workflows-line" onClick={() => onLine(diagnostic.line)}>
            {line}
          </button>
        ) : (
          <span className="dim">{line}</span>
        ))}{" "}
      {diagnostic.message} <code className="dim">{diagnostic.code}</code>
      {diagnostic.hint && <p className="dim small">{diagnostic.hint}</p>}
    </li>
  );
}

export function Loops({ result }: { result: CheckResult }) {
  const texts = useMessages(messages);
  if (result.loops.length === 0) return <p className="dim">{result.draft ? texts.loopsUnknown : texts.noLoops}</p>;
  return (
    <ul className="workflows-loops">
      {result.loops.map((proof) => (
        <ProofLine key={proof.id} proof={proof} />
      ))}
    </ul>
  );
}

function ProofLine({ proof }: { proof: Proof }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const bounds = proof.bounded_by.map((one) =>
    typeof one.limit === "number" ? texts.bound(formats.number(one.limit), one.guard) : texts.boundTime(one.limit, one.guard),
  );
  return (
    <li style={{ paddingLeft: proof.depth * 14 }}>
      <strong>
        {texts.loop} {proof.id}
      </strong>{" "}
      {bounds.length ? bounds.join("; ") : texts.onlyCap(formats.number(proof.cap))}
      {proof.depth > 0 && proof.worst_case_total !== null && (
        <span className="dim">, {texts.total(formats.number(proof.worst_case_total))}</span>
      )}
    </li>
  );
}
