// The figures of each round of a loop as plots, and as a table.
import { useMemo, useState } from "react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useShallow } from "zustand/react/shallow";
import { useStore } from "zustand";
import { keys } from "../../../api/queries";
import { readRounds } from "../../../api/rounds";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { parseAddress } from "../../../live/address";
import { costOf, tokensOf, type LoopEntry, type RunModel } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { workSeconds } from "../../../live/work";
import { bestRound, decisionOf, newestRound, proofOf, useRunContext } from "../context";
import { withoutGain } from "../round/decision";
import { placeOf } from "../round/entries";
import { useThrottled } from "../round/throttle";
import { Charts, type Series } from "./Charts";
import { messages } from "./messages";
import { useRefresh } from "./refresh";
import "./guards.css";

/** The least time between two drawings of new events, in milliseconds. */
const PACE_MS = 500;

const countRounds = (model: RunModel) => `${model.rounds.size} ${model.status}`;

export function Plots() {
  const texts = useMessages(messages);
  const { store, selected } = useRunContext();
  const order = useRun(store, (model) => model.order);
  // A run that goes through hundreds of inner loops a second would draw each of them.
  const place = useThrottled(store, selected, (model) => (selected ? placeOf(model, selected) : newestRound(model)), PACE_MS);
  // The loop of the round that is shown, unless another one was chosen since that round was selected.
  const [chosen, setChosen] = useState({ stem: "", at: "" });
  const own = useRun(store, (model) => model.rounds.get(place)?.stem ?? "");
  const stem = chosen.stem && chosen.at === own ? chosen.stem : own || order.at(-1) || "";
  return (
    <section className="plots" aria-label={texts.perRound}>
      <header className="guards-header">
        <h2>{texts.perRound}</h2>
        {order.length > 0 && <LoopSelect order={order} value={stem} onChange={(next) => setChosen({ stem: next, at: own })} />}
      </header>
      {stem ? <LoopPlots stem={stem} place={place} /> : <p className="guards-none">{texts.noRounds}</p>}
    </section>
  );
}

function LoopSelect({ order, value, onChange }: { order: readonly string[]; value: string; onChange: (stem: string) => void }) {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  const names = useStore(
    store,
    useShallow(({ model }) =>
      order.map((stem) => {
        const entry = model.loops.get(stem);
        if (entry === undefined) return stem;
        return entry.parent ? texts.loopIn(entry.loop, entry.parent) : entry.loop;
      }),
    ),
  );
  return (
    <select className="plots-select" aria-label={texts.loop} value={value} onChange={(event) => onChange(event.target.value)}>
      {order.map((stem, index) => (
        <option key={stem} value={stem}>
          {names[index]}
        </option>
      ))}
    </select>
  );
}

function useNovelty(entry: LoopEntry | undefined): ReadonlyMap<string, number | null> {
  const { runId, store } = useRunContext();
  const loop = entry?.loop ?? "";
  const queryKey = [...keys.rounds(runId), loop];
  const figures = useQuery({
    queryKey,
    queryFn: ({ signal }) => readRounds(runId, { loop }, signal),
    enabled: loop !== "",
    placeholderData: keepPreviousData,
  });
  useRefresh(store, queryKey, countRounds);
  return useMemo(() => {
    const found = new Map<string, number | null>();
    for (const one of figures.data ?? []) {
      for (const round of one.rounds) found.set(round.address, round.novelty);
    }
    return found;
  }, [figures.data]);
}

function sum(values: readonly (number | null)[]): number {
  return values.reduce<number>((total, value) => total + (value ?? 0), 0);
}

function LoopPlots({ stem, place }: { stem: string; place: string }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store, plan, select } = useRunContext();
  // The round that runs changes with every event; its bars need not.
  const entry = useThrottled(store, stem, (model) => model.loops.get(stem), PACE_MS);
  const idle = useRun(store, (model) => model.idle);
  const novelty = useNovelty(entry);
  const shown = useMemo(() => {
    if (entry === undefined) return null;
    const { rounds } = entry;
    const decision = decisionOf(plan, entry.loop);
    const wanted = decision?.exit_on_score || null;
    const best = bestRound(entry);
    const scores = rounds.map((round) => round.score);
    const seconds = rounds.map((round) => workSeconds(idle, round.started, round.ended));
    const tokens = rounds.map((round) => tokensOf(round.usage));
    const costs = rounds.map(costOf);
    const novelties = rounds.map((round) => novelty.get(round.address) ?? null);
    const step = parseAddress(place).rounds.find((one) => one.stem === stem);
    const current = rounds.find((round) => round.number === step?.round);
    const known = novelties.filter((value): value is number => value !== null);
    const decided = rounds.filter((round) => !round.isOpen).map((round) => round.score);
    const since = withoutGain(decided, decision?.min_delta ?? 0);
    const gained = decided[since.since];
    const plateau =
      decision?.patience && rounds.at(-1)?.isOpen && gained != null
        ? {
            from: rounds[since.since]?.number ?? 1,
            to: (rounds[since.since]?.number ?? 1) + decision.patience,
            level: gained + decision.min_delta,
            text:
              decision.min_delta > 0
                ? texts.gainBy(formats.decimal(decision.min_delta), (rounds[since.since]?.number ?? 1) + decision.patience)
                : texts.anyGainBy((rounds[since.since]?.number ?? 1) + decision.patience),
          }
        : null;
    const score = (current ?? best)?.score ?? null;
    const scoreText = score === null ? "" : formats.decimal(score);
    const series: Series[] = [];
    if (scores.some((score) => score !== null) || wanted !== null) {
      series.push({
        name: texts.score,
        kind: "line",
        color: "--exit",
        values: scores,
        text: (value) => formats.decimal(value),
        summary: wanted === null ? scoreText : scoreText ? texts.exitAt(scoreText, formats.decimal(wanted)) : texts.onlyExit(formats.decimal(wanted)),
        threshold: wanted === null ? null : { value: wanted, color: "--exit" },
        best: best?.number ?? null,
        plateau,
      });
    }
    // A run that is over and never used a model has no tokens to show.
    if (sum(tokens) > 0 || rounds.at(-1)?.isOpen) {
      series.push({
        name: texts.tokens,
        kind: "bar",
        color: "--agent",
        values: tokens,
        text: (value) => formats.number(value),
        summary: texts.inAll(formats.number(sum(tokens))),
      });
    }
    series.push({
      name: texts.novelty,
      kind: "line",
      color: "--novelty",
      values: novelties,
      text: (value) => value.toFixed(2),
      summary: known.length ? texts.mean((sum(known) / known.length).toFixed(2)) : "",
      threshold: plan.novelty === null ? null : { value: plan.novelty, color: "--locked" },
      top: 1,
    });
    series.push({
      name: texts.time,
      kind: "bar",
      color: "--python",
      values: seconds,
      text: (value) => formats.duration(value),
      summary: texts.inAll(formats.duration(sum(seconds))),
    });
    if (costs.some((cost) => cost !== null)) {
      series.push({
        name: texts.cost,
        kind: "bar",
        color: "--flow",
        values: costs,
        text: (value) => formats.cost(value),
        summary: texts.inAll(formats.cost(sum(costs))),
      });
    }
    return {
      series,
      numbers: rounds.map((round) => round.number),
      addresses: rounds.map((round) => round.address),
      open: rounds.map((round) => round.isOpen),
      selected: step?.round ?? null,
      limit: proofOf(plan, entry.loop)?.worst_case_rounds ?? null,
      best: best?.number ?? null,
    };
  }, [entry, idle, novelty, plan, place, stem, texts, formats]);
  const [isOpen, setOpen] = useState(false);
  if (shown === null) return null;
  return (
    <>
      <Charts
        series={shown.series}
        numbers={shown.numbers}
        isOpen={shown.open}
        selected={shown.selected}
        limit={shown.limit}
        onPick={(index) => {
          const address = shown.addresses[index];
          if (address !== undefined) select(address);
        }}
      />
      <details className="plots-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{texts.table}</summary>
        {isOpen && (
          <div className="plots-scroll">
            <table>
              <thead>
                <tr>
                  <th scope="col">{texts.round}</th>
                  {shown.series.map((one) => (
                    <th key={one.name} scope="col">
                      {one.name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {shown.numbers.map((number, index) => (
                  <tr key={number} aria-current={number === shown.selected || undefined}>
                    <th scope="row">
                      <button type="button" onClick={() => select(shown.addresses[index] ?? "")}>
                        {number}
                      </button>
                      {number === shown.best && <span className="plots-best"> {texts.best}</span>}
                    </th>
                    {shown.series.map((one) => {
                      const value = one.values[index];
                      return <td key={one.name}>{value == null ? "–" : one.text(value)}</td>;
                    })}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </details>
    </>
  );
}
