// What a run may take, as the text is now and with a counter in the loops that have none.
import { useEffect, useState } from "react";
import type { CheckResult, Drawing, Forecast } from "../../../api/schema";
import { applied, type WorkflowDocument } from "../../../document/model";
import { readDocument } from "../../../document/read";
import { useFormats, type Formats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { useEditor } from "../store";
import { applyFix, fixOf, loopOfProof } from "./fix";
import { messages } from "./messages";
import { useForecast } from "./useForecast";

/** The text with a counter in each loop that only its cap bounds; null if there is none, or nobody wants it any more.
 *
 * Each counter changes the text that the next one is put into, so a large text is read many times: one task for each,
 * that the page can draw in between. */
export async function guardedText(
  document: WorkflowDocument,
  drawing: Drawing,
  check: CheckResult,
  signal: AbortSignal,
): Promise<string | null> {
  let current = document;
  for (const proof of check.loops) {
    if (proof.bounded_by.length > 0) continue;
    await new Promise((resolve) => setTimeout(resolve));
    if (signal.aborted) return null;
    const loop = loopOfProof(drawing, proof);
    const fix = loop && fixOf(current, drawing, loop.region);
    if (fix) current = readDocument(applied(current.text, applyFix(current, fix).changes));
  }
  return current === document ? null : current.text;
}

/** The same for what the editor shows, a moment later. */
function useGuardedText(): string | null {
  const check = useEditor((values) => values.check);
  const document = useEditor((values) => values.lastGood);
  const drawing = useEditor((values) => values.drawing);
  const isCurrent = useEditor((values) => values.lastGood.text === values.checkedText && values.drawnText === values.checkedText);
  const [guarded, setGuarded] = useState<{ document: WorkflowDocument; text: string | null } | null>(null);
  useEffect(() => {
    if (!isCurrent || drawing === null || check === null) return;
    const control = new AbortController();
    void guardedText(document, drawing, check, control.signal).then((text) => {
      if (!control.signal.aborted) setGuarded({ document, text });
    });
    return () => control.abort();
  }, [isCurrent, document, drawing, check]);
  return isCurrent && guarded?.document === document ? guarded.text : null;
}

export function ForecastTable() {
  const texts = useMessages(messages);
  const formats = useFormats();
  const check = useEditor((values) => values.check);
  const checkedText = useEditor((values) => values.checkedText);
  const name = useEditor(({ saved }) => saved?.name ?? "");
  const now = useForecast(check?.ok ? checkedText : null, name);
  const guarded = useGuardedText();
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
