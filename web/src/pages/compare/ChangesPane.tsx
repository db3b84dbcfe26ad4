// What the fork changed, the figures of both runs, and both in words.
import type { ReactNode } from "react";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { parseAddress } from "../../live/address";
import type { RunModel } from "../../live/run_model";
import { Icon } from "../../ui/Icon";
import { WordDiff } from "../../ui/diff/WordDiff";
import { messageBefore } from "../fork/message";
import type { Edit, GraphChanges, LimitChange } from "./changes";
import type { Side } from "./Comparison";
import { difference, type Figures } from "./figures";
import { Letter } from "./Letter";
import { messages, reasonWord } from "./messages";

export function ChangesPane({
  a,
  b,
  modelA,
  edits,
  limits,
  graph,
  figures,
  sentences,
  isChild,
  isFair,
  hasLoop,
}: {
  a: Side;
  b: Side;
  modelA: RunModel;
  edits: readonly Edit[];
  limits: readonly LimitChange[];
  graph: GraphChanges;
  figures: { a: Figures; b: Figures };
  sentences: readonly string[];
  isChild: boolean;
  /** Both are over and have the same workflow: only then is one better than the other. */
  isFair: boolean;
  hasLoop: boolean;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const limit = (name: string, value: unknown) => {
    if (value === null) return texts.noLimit;
    if (typeof value !== "number") return String(value);
    return name === "cost_usd" ? `$${value}` : formats.decimal(value);
  };
  return (
    <aside className="compare-side" tabIndex={0} aria-label={isChild ? texts.forkChanged : texts.differences}>
      <section aria-labelledby="compare-changes">
        <h2 id="compare-changes">{isChild ? texts.forkChanged : texts.differences}</h2>
        {edits.map((edit) => (
          <EditedMessage key={`${edit.at} ${edit.address}`} edit={edit} a={a} modelA={modelA} />
        ))}
        {a.view.input !== b.view.input && (
          <div className="compare-block">
            <h3>{texts.inputChanged}</h3>
            <WordDiff before={a.view.input} after={b.view.input} />
          </div>
        )}
        {isChild && edits.length + limits.length === 0 && graph.isSame && (
          <p className="compare-block dim">{texts.nothingChanged}</p>
        )}
        <div className="compare-block">
          <h3>{texts.limits}</h3>
          {limits.length === 0 ? (
            <p className="dim">{texts.sameLimits}</p>
          ) : (
            <dl className="compare-limits">
              {limits.map((change) => (
                <div key={change.name}>
                  <dt>{change.name}</dt>
                  <dd>
                    <span className="dim">{limit(change.name, change.a)}</span> <Icon name="flow" size={12} />{" "}
                    <strong>{limit(change.name, change.b)}</strong>
                  </dd>
                </div>
              ))}
            </dl>
          )}
        </div>
        <div className="compare-block">
          <h3>{texts.workflow}</h3>
          <GraphText graph={graph} a={a} b={b} />
        </div>
      </section>
      <section aria-labelledby="compare-figures">
        <h2 id="compare-figures">{texts.figures}</h2>
        <FigureTable {...figures} hasLoop={hasLoop} isFair={isFair} />
      </section>
      <section aria-labelledby="compare-words">
        <h2 id="compare-words">{texts.inWords}</h2>
        <p className="compare-block compare-words">{sentences.join(" ")}</p>
      </section>
    </aside>
  );
}

function EditedMessage({ edit, a, modelA }: { edit: Edit; a: Side; modelA: RunModel }) {
  const texts = useMessages(messages);
  const place = parseAddress(edit.address);
  const before = messageBefore(modelA, a.plan.drawing, edit.address);
  return (
    <div className="compare-block">
      <h3>{texts.messageTo(place.rest || edit.address, place.rounds.at(-1)?.round ?? 0)}</h3>
      {before === undefined ? (
        <p className="compare-message">{edit.text}</p>
      ) : (
        <WordDiff before={before.text} after={edit.text} />
      )}
      <p className="dim small">
        {before === undefined
          ? texts.beforeUnknown
          : before.from === ""
            ? texts.replacedInput
            : texts.lastOutputOf(before.from)}
      </p>
    </div>
  );
}

function GraphText({ graph, a, b }: { graph: GraphChanges; a: Side; b: Side }) {
  const texts = useMessages(messages);
  if (graph.isSame) return <p className="dim">{texts.sameGraph}</p>;
  if (graph.isOtherWorkflow) return <p>{texts.otherWorkflow(a.plan.workflow, b.plan.workflow)}</p>;
  const lines = [
    graph.added.length > 0 && texts.addedNodes(graph.added.join(", ")),
    graph.removed.length > 0 && texts.removedNodes(graph.removed.join(", ")),
    graph.changed.length > 0 && texts.changedNodes(graph.changed.join(", ")),
    graph.edges && texts.changedEdges,
  ].filter((line) => line !== false);
  return <p>{lines.join(" ")}</p>;
}

interface Line {
  label: string;
  a: ReactNode;
  b: ReactNode;
  difference: number | null;
  show: (value: number) => string;
  /** Whether more is better; null if it is neither. */
  isMoreBetter: boolean | null;
}

function FigureTable({ a, b, hasLoop, isFair }: { a: Figures; b: Figures; hasLoop: boolean; isFair: boolean }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const dash = "–";
  const known = (value: number | null, show: (value: number) => string) => (value === null ? dash : show(value));
  const number = (value: number) => formats.number(value);
  const decimal = (value: number) => formats.decimal(value);
  const best = (figures: Figures) =>
    figures.best === null ? dash : texts.bestIn(decimal(figures.best.score), figures.best.round);
  const ofLoop: Line[] = [
    {
      label: texts.leftBy,
      a: a.reason ? reasonWord(a.reason, texts) : dash,
      b: b.reason ? reasonWord(b.reason, texts) : dash,
      difference: null,
      show: number,
      isMoreBetter: null,
    },
    {
      label: texts.rounds,
      a: number(a.rounds),
      b: number(b.rounds),
      difference: difference(a.rounds, b.rounds),
      show: number,
      isMoreBetter: false,
    },
    {
      label: texts.bestScore,
      a: best(a),
      b: best(b),
      difference: difference(a.best?.score ?? null, b.best?.score ?? null),
      show: decimal,
      isMoreBetter: true,
    },
  ];
  const lines: Line[] = [
    ...(hasLoop ? ofLoop : []),
    {
      label: texts.modelCalls,
      a: number(a.modelCalls),
      b: number(b.modelCalls),
      difference: difference(a.modelCalls, b.modelCalls),
      show: number,
      isMoreBetter: false,
    },
    {
      label: texts.tokens,
      a: number(a.tokens),
      b: number(b.tokens),
      difference: difference(a.tokens, b.tokens),
      show: number,
      isMoreBetter: false,
    },
    ...(b.newTokens === null
      ? []
      : [{ label: texts.newTokens, a: "", b: number(b.newTokens), difference: null, show: number, isMoreBetter: null }]),
    {
      label: texts.cost,
      a: formats.cost(a.cost),
      b: formats.cost(b.cost),
      difference: difference(a.cost, b.cost),
      show: (value) => formats.cost(value),
      isMoreBetter: false,
    },
    {
      label: texts.workTime,
      a: formats.duration(a.work),
      b: formats.duration(b.work),
      difference: difference(a.work, b.work),
      show: formats.duration,
      isMoreBetter: false,
    },
    ...(hasLoop
      ? [
          {
            label: texts.novelty,
            a: known(a.novelty, (value) => value.toFixed(2)),
            b: known(b.novelty, (value) => value.toFixed(2)),
            difference: difference(a.novelty, b.novelty),
            show: (value: number) => value.toFixed(2),
            isMoreBetter: true,
          },
        ]
      : []),
  ];
  return (
    <>
      <table className="compare-figures">
        <thead>
          <tr>
            <th scope="col">
              <span className="hidden-text">{texts.figure}</span>
            </th>
            <th scope="col">
              <Letter of="a" />
            </th>
            <th scope="col">
              <Letter of="b" />
            </th>
            <th scope="col">B − A</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr key={line.label}>
              <th scope="row">{line.label}</th>
              <td>{line.a}</td>
              <td>{line.b}</td>
              <td>
                <Delta value={line.difference} show={line.show} isMoreBetter={isFair ? line.isMoreBetter : null} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {hasLoop && <p className="compare-block compare-note dim small">{texts.wholeRun}</p>}
    </>
  );
}

/** `+5`, `−542`, `±0`. */
export function Delta({
  value,
  show,
  isMoreBetter,
}: {
  value: number | null;
  show: (value: number) => string;
  isMoreBetter: boolean | null;
}) {
  if (value === null) return null;
  const text = show(Math.abs(value));
  // A difference that rounds to nothing is none.
  const isZero = value === 0 || !/[1-9]/.test(text);
  if (isZero) return <span className="dim">±0</span>;
  const isBetter = isMoreBetter !== null && value > 0 === isMoreBetter;
  const kind = isMoreBetter === null ? "" : isBetter ? "compare-better" : "compare-worse";
  return <span className={kind}>{`${value > 0 ? "+" : "−"}${text}`}</span>;
}
