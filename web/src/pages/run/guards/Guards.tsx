// The limits that could end the run, the nearest first.
import { useMemo, useRef, useState } from "react";
import { useStore } from "zustand";
import { keys, useRunState } from "../../../api/queries";
import { isOver } from "../../../api/statuses";
import { useFormats, type Formats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { RunModel } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Icon } from "../../../ui/Icon";
import { Failure, Loading } from "../../../ui/State";
import { useRunContext } from "../context";
import { finalRows, liveRows, orderRows, withForecast, type GuardRow } from "./guards";
import { messages } from "./messages";
import { useRefresh } from "./refresh";
import "./guards.css";

/** So many are shown at first. */
const FIRST = 5;

const seqOf = (model: RunModel) => model.seq;

/** Changes when a round ends, and so the order of the rows may change. */
const phaseOf = (model: RunModel) => `${model.rounds.size} ${model.idle.length} ${model.status}`;

export function Guards() {
  const texts = useMessages(messages);
  const { runId, store } = useRunContext();
  const over = useRun(store, (model) => isOver(model.status));
  return (
    <div className="guards">
      <header className="guards-header">
        <h2>{texts.guards}</h2>
        <span className="dim">{over ? texts.final : texts.nearest}</span>
      </header>
      {over ? <FinalGuards /> : <LiveGuards key={runId} />}
    </div>
  );
}

function FinalGuards() {
  const { store, plan } = useRunContext();
  const seq = useRun(store, seqOf);
  const rows = useMemo(() => finalRows(store.getState().model, plan), [store, plan, seq]);
  const order = useMemo(() => orderRows(rows, null), [rows]);
  return <Rows rows={rows} order={order} />;
}

function LiveGuards() {
  const { runId, store, plan } = useRunContext();
  const state = useRunState(runId);
  useRefresh(store, keys.state(runId), seqOf);
  const { data, error } = state;
  const isLoaded = useStore(store, (snapshot) => snapshot.isLoaded);
  const rows = useMemo(() => {
    if (data === undefined || !isLoaded) return [];
    const { model } = store.getState();
    return withForecast(liveRows(data.guards, data.loops, model, plan), model, plan);
  }, [data, store, plan, isLoaded]);
  const phase = useRun(store, phaseOf);
  const order = useOrder(rows, phase);
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void state.refetch()} />;
  if (data === undefined) return <Loading lines={5} />;
  return <Rows rows={rows} order={order} />;
}

/** The order of the rows, which changes only with figures that are newer than the end of a round. */
function useOrder(rows: readonly GuardRow[], phase: string): string[] {
  const kept = useRef<{ rows: readonly GuardRow[]; phase: string; order: string[] }>({ rows: [], phase: "", order: [] });
  const before = kept.current;
  if (before.rows !== rows) {
    const isNew = before.phase !== phase || !before.order.length;
    kept.current = { rows, phase, order: orderRows(rows, isNew ? null : before.order) };
  }
  return kept.current.order;
}

function Rows({ rows, order }: { rows: readonly GuardRow[]; order: readonly string[] }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const [isOpen, setOpen] = useState(false);
  const byKey = new Map(rows.map((row) => [row.key, row]));
  const sorted = order.flatMap((key) => byKey.get(key) ?? []);
  if (!sorted.length) return <p className="guards-none">{texts.none}</p>;
  const rest = sorted.slice(FIRST);
  const summary = rest.map((row) => `${texts.kind(row.kind)} ${briefly(row, formats)}`).join(" · ");
  return (
    <>
      <ul className="guards-list">
        {(isOpen ? sorted : sorted.slice(0, FIRST)).map((row) => (
          <Row key={row.key} row={row} />
        ))}
      </ul>
      {rest.length > 0 && (
        <button type="button" className="guards-more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <span className="guards-more-count">{isOpen ? texts.fewer : texts.more(rest.length)}</span>
          {!isOpen && <span className="guards-more-text">{summary}</span>}
          <Icon name={isOpen ? "up" : "down"} size={14} />
        </button>
      )}
    </>
  );
}

function amount(kind: string, value: number, formats: Formats): string {
  if (kind === "seconds") return formats.duration(value);
  if (kind === "cost_usd") return Number.isInteger(value) ? `$${formats.number(value)}` : formats.cost(value);
  if (kind === "novelty") return value.toFixed(2);
  return formats.number(value);
}

/** 30 %, 0.46, 0 / 3 */
function briefly(row: GuardRow, formats: Formats): string {
  if (row.kind === "novelty") return row.used.toFixed(2);
  if (["rounds", "tool_rounds", "plateau"].includes(row.kind)) return `${formats.decimal(row.used)} / ${formats.decimal(row.limit)}`;
  return formats.percent(row.share);
}

/** Near: from here on the bar has the colour of loops. */
const NEAR = 0.8;

function Row({ row }: { row: GuardRow }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const isFloor = row.kind === "novelty";
  const scope = !row.name ? texts.run : row.name === "breaker" ? texts.breaker : row.by && row.by !== row.name ? texts.by(row.name, row.by) : row.name;
  const used = amount(row.kind, row.used, formats);
  const limit = amount(row.kind, row.limit, formats);
  const part = (value: number) => `${Math.min(100, Math.max(0, (100 * value) / (isFloor ? 1 : row.limit || 1)))}%`;
  const likely = row.likely === null ? null : row.likely.value;
  const isNear = row.share >= NEAR || (likely !== null && row.limit > 0 && likely / row.limit >= NEAR);
  const color = isFloor ? (isNear ? "var(--loop)" : "var(--novelty)") : isNear ? "var(--loop)" : "var(--flow)";
  return (
    <li className="guards-row">
      <div className="guards-line">
        <span className="guards-kind">{texts.kind(row.kind)}</span>
        <span className="guards-scope" title={scope}>
          {scope}
        </span>
        <span className="guards-value">
          {used} / {isFloor ? texts.atLeast(limit) : limit}
        </span>
      </div>
      <div className="guards-bar" aria-hidden="true">
        {likely !== null && likely > row.used && <span className="guards-likely" style={{ width: part(likely) }} />}
        <span className="guards-used" style={{ width: part(row.used), background: color }} />
        {likely !== null && <span className="guards-mark" style={{ left: part(likely) }} />}
        {isFloor && <span className="guards-mark" style={{ left: part(row.limit) }} />}
      </div>
      <div className="guards-note">{notes(row, texts, formats).join(" · ")}</div>
    </li>
  );
}

type Texts = ReturnType<typeof useMessages<(typeof messages)["en"]>>;

function notes(row: GuardRow, texts: Texts, formats: Formats): string[] {
  if (row.kind === "novelty") return [texts.floor(amount(row.kind, row.limit, formats))];
  if (row.kind === "plateau") return [texts.withoutGain(row.used)];
  const rest = row.limit - row.used;
  const parts = [rest < 0 ? texts.over(amount(row.kind, -rest, formats)) : texts.left(amount(row.kind, rest, formats))];
  if (row.likely !== null) {
    const value = amount(row.kind, row.likely.value, formats);
    if (row.likely.basis === "forecast") parts.push(texts.forecast(value));
    else if (row.kind === "rounds") parts.push(texts.likelyOf(value, amount(row.kind, row.limit, formats)));
    else parts.push(texts.likelyEnd(value));
  }
  if (row.kind === "seconds" && row.likely === null) parts.push(texts.waitingNotCounted);
  return parts;
}
