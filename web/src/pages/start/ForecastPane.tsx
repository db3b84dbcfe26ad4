// What a run of these fields would take, before anybody is asked.
import type { ForecastResult } from "../../api/schema";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { messages } from "./messages";

export function ForecastPane({ result, limit }: { result: ForecastResult | undefined; limit: number | undefined }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const forecast = result?.forecast;
  const worst = (value: number | null) => (value === null ? "–" : formats.number(value));
  return (
    <section className="start-forecast" aria-label={texts.forecast}>
      <h3>
        {texts.forecast} <span className="dim small">{texts.forecastAside}</span>
      </h3>
      {!forecast ? (
        <p className="dim">{texts.noForecast}</p>
      ) : (
        <>
          <dl className="start-figures">
            <div>
              <dt>{texts.modelCalls}</dt>
              <dd>{formats.number(forecast.model_calls.typical)}</dd>
              <dd className="dim">
                {forecast.model_calls.worst === null ? texts.noBound : texts.atMost(formats.number(forecast.model_calls.worst))}
              </dd>
            </div>
            <div>
              <dt>{texts.tokens}</dt>
              <dd>{formats.number(forecast.tokens.typical)}</dd>
              <dd className="dim">{limit === undefined ? texts.noBound : texts.ofLimit(formats.number(limit))}</dd>
            </div>
            <div>
              <dt>{texts.cost}</dt>
              <dd>{formats.cost(forecast.cost_usd)}</dd>
              <dd className="dim">{forecast.cost_usd === null ? texts.noPrice : texts.typicalCost}</dd>
            </div>
          </dl>
          <div className="start-table">
            <table>
              <thead>
                <tr>
                  <th scope="col">{texts.node}</th>
                  <th scope="col">{texts.inLoop}</th>
                  <th scope="col" colSpan={2}>
                    {texts.runsColumn}
                  </th>
                  <th scope="col" colSpan={2}>
                    {texts.callsColumn}
                  </th>
                  <th scope="col">{texts.tokens}</th>
                </tr>
              </thead>
              <tbody>
                {forecast.nodes.map((row) => (
                  <tr key={`${row.path}/${row.node}`}>
                    <th scope="row" title={row.path ? `${row.path}/${row.node}` : undefined}>
                      {row.node}
                    </th>
                    <td>{row.loop}</td>
                    <td>{worst(row.runs.worst)}</td>
                    <td>{formats.number(row.runs.typical)}</td>
                    <td>{worst(row.model_calls.worst)}</td>
                    <td>{formats.number(row.model_calls.typical)}</td>
                    <td>{formats.number(row.tokens.typical)}</td>
                  </tr>
                ))}
              </tbody>
              <tfoot>
                <tr>
                  <th scope="row" colSpan={4}>
                    {texts.inAll}
                  </th>
                  <td>{worst(forecast.model_calls.worst)}</td>
                  <td>{formats.number(forecast.model_calls.typical)}</td>
                  <td>{formats.number(forecast.tokens.typical)}</td>
                </tr>
              </tfoot>
            </table>
          </div>
          <TokenBar
            typical={forecast.tokens.typical}
            calls={forecast.model_calls.typical}
            worstCalls={forecast.model_calls.worst}
            limit={limit}
          />
          {forecast.unpriced.length > 0 && <p className="dim small">{texts.unpriced(forecast.unpriced.join(", "))}</p>}
          <details className="start-assumptions small">
            <summary>{texts.assumptions}</summary>
            <ul>
              {forecast.assumptions.map((one) => (
                <li key={one}>{one}</li>
              ))}
            </ul>
          </details>
        </>
      )}
    </section>
  );
}

/** The typical tokens, and those of as many calls as there can be, against the limit. */
function TokenBar({
  typical,
  calls,
  worstCalls,
  limit,
}: {
  typical: number;
  calls: number;
  worstCalls: number | null;
  limit: number | undefined;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  // Nothing bounds the tokens of a call, but the calls are bounded: this is their size if all are as usual.
  const most = worstCalls === null || calls === 0 ? typical : Math.round((typical / calls) * worstCalls);
  const full = Math.max(limit ?? 0, most, typical) * 1.04;
  if (full === 0) return null;
  const share = (value: number) => `${(value / full) * 100}%`;
  return (
    <figure className="start-bar">
      <div className="start-bar-marks small">
        <span>{texts.typicalMark(formats.number(typical))}</span>
        {limit !== undefined && <span>{texts.limitMark(formats.number(limit))}</span>}
      </div>
      <div className="start-bar-track" aria-hidden="true">
        <div className="start-bar-most" style={{ width: share(most) }} />
        <div className="start-bar-typical" style={{ width: share(typical) }} />
        {limit !== undefined && <div className="start-bar-limit" style={{ left: share(limit) }} />}
      </div>
      <figcaption className="dim small">
        {most > typical && worstCalls !== null && texts.worstSize(formats.number(worstCalls), formats.number(most))}
        {limit !== undefined && typical > limit && <strong className="start-over">{texts.overLimit}</strong>}
      </figcaption>
    </figure>
  );
}
