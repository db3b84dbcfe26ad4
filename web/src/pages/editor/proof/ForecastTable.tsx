// What a run may take, as the text is now and with a counter in the loops that have none.
import { useMemo } from "react";
import type { CheckResult, Drawing, Forecast } from "../../../api/schema";
import { applied, type WorkflowDocument } from "../../../document/model";
import { readDocument } from "../../../document/read";
import { useFormats, type Formats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { useEditor } from "../store";
import { applyFix, fixOf, loopOfProof } from "./fix";
import { messages } from "./messages";
import { useForecast } from "./useForecast";

/** The text with a counter in each loop that only its cap bounds; null if there is none. */
export function guardedText(document: WorkflowDocument, drawing: Drawing | null, check: CheckResult | null): string | null {
  if (drawing === null || check === null) return null;
  let current = document;
  for (const proof of check.loops) {
    if (proof.bounded_by.length > 0) continue;
    const loop = loopOfProof(drawing, proof);
    const fix = loop && fixOf(current, drawing, loop.region);
    if (fix) current = readDocument(applied(current.text, applyFix(current, fix).changes));
  }
  return current === document ? null : current.text;
}

export function ForecastTable() {
  const texts = useMessages(messages);
  const formats = useFormats();
  const check = useEditor((values) => values.check);
  const checkedText = useEditor((values) => values.checkedText);
  const isCurrent = useEditor((values) => values.lastGood.text === values.checkedText && values.drawnText === values.checkedText);
  const document = useEditor((values) => values.lastGood);
  const drawing = useEditor((values) => values.drawing);
  const name = useEditor(({ saved }) => saved?.name ?? "");
  const now = useForecast(check?.ok ? checkedText : null, name);
  const guarded = useMemo(() => (isCurrent ? guardedText(document, drawing, check) : null), [isCurrent, document, drawing, check]);
  const then = useForecast(guarded, name);
  const forecast = check?.ok ? now.data?.forecast : null;
  const better = guarded === null ? null : then.data?.forecast;
  return (
    <section className="proof-part proof-forecast" aria-labelledby="forecast-title">
      <h2 id="forecast-title">{texts.forecast}</h2>
      {!forecast ? (
        <p className="dim">{now.error ? now.error.message : texts.noForecast}</p>
      ) : (
        <table>
          <thead className={better ? undefined : "hidden-text"}>
            <tr>
              <td />
              <th scope="col">{texts.now}</th>
              {better && <th scope="col">{texts.withCounter}</th>}
            </tr>
          </thead>
          <tbody>
            {rows(texts, formats).map(({ text, value, isStrong }) => (
              <tr key={text}>
                <th scope="row">{text}</th>
                <td className={isStrong ? "strong" : undefined}>{value(forecast)}</td>
                {better && <td className={isStrong ? "strong" : undefined}>{value(better)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

interface Row {
  text: string;
  value: (forecast: Forecast) => string;
  isStrong?: boolean;
}

function rows(texts: (typeof messages)["en"] | (typeof messages)["zh"], formats: Formats): Row[] {
  const worst = (value: number | null) => (value === null ? texts.noBound : formats.number(value));
  return [
    { text: texts.worstCalls, value: (one) => worst(one.model_calls.worst), isStrong: true },
    { text: texts.typicalCalls, value: (one) => formats.number(one.model_calls.typical) },
    { text: texts.typicalTokens, value: (one) => formats.number(one.tokens.typical) },
    { text: texts.typicalCost, value: (one) => formats.cost(one.cost_usd) },
  ];
}
