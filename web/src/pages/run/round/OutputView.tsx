// What a node returned: as it reads best, as the difference from another round, or exactly as it is.
import { useMemo } from "react";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { parseAddress } from "../../../live/address";
import type { Execution } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button, Segmented } from "../../../ui/Button";
import { countWords, looksLikeCode, wordDiff, WordDiff } from "../../../ui/diff/WordDiff";
import { Expandable, ExpandableText } from "../../../ui/Expandable";
import { toast, toastError } from "../../../ui/toasts";
import { useRunContext } from "../context";
import { comparable, comparedRound, counterpart } from "./entries";
import { asText, prettyJson } from "./json";
import { messages } from "./messages";

export type Mode = "output" | "diff" | "raw";

export function OutputView({
  execution,
  mode: chosenMode,
  wasLive,
  onMode,
}: {
  execution: Execution;
  /** What the reader has chosen; undefined for what is usual. */
  mode: Mode | undefined;
  /** It was seen while it ran: its view does not change under the reader's eyes when it ends. */
  wasLive: boolean;
  onMode: (mode: Mode) => void;
}) {
  const texts = useMessages(messages);
  const { store, other, compareWith } = useRunContext();
  const text = execution.output ?? "";
  const step = parseAddress(execution.round).rounds.at(-1);
  // The rounds change with every event of a running one; only their number matters here.
  const count = useRun(store, (model) => model.loops.get(step?.stem ?? "")?.rounds.length ?? 0);
  const choices = useMemo(
    () => comparable(store.getState().model, execution),
    [store, execution, count],
  );
  const compared = comparedRound(choices, step?.round ?? 0, other);
  const before = useRun(store, (model) =>
    compared ? model.executions.get(counterpart(execution, compared))?.output : undefined,
  );
  const pretty = useMemo(() => prettyJson(text), [text]);
  // JSON is compared as it is shown, by lines if it has several.
  const old = useMemo(() => prettyJson(before ?? "") ?? before ?? "", [before]);
  // The first round has nothing before it: a difference from a later one is shown only if it was asked for.
  const isEarlier = choices.some((choice) => choice.round === compared && choice.number < (step?.round ?? 0));
  const isUseful = before !== undefined && (isEarlier || compared === other) && pretty === null;
  const usual: Mode = isUseful && !wasLive ? "diff" : "output";
  const wanted = chosenMode ?? usual;
  const mode = wanted === "diff" && before === undefined ? "output" : wanted;
  const modes = [
    { value: "output" as const, text: texts.viewOutput },
    ...(before === undefined ? [] : [{ value: "diff" as const, text: texts.viewDiff }]),
    { value: "raw" as const, text: texts.viewRaw },
  ];
  // Without anything to compare or to unfold, all views are the same. A text that was seen while it was written
  // has this row all the same, where the note about the writing was: it would move up without it.
  const hasViews = wasLive || before !== undefined || pretty !== null || execution.data !== undefined;
  if (!hasViews) return <Plain text={text} pretty={pretty} wasLive={wasLive} />;
  return (
    <>
      <div className="round-controls">
        <Segmented label={texts.view} choices={modes} value={mode} onChange={onMode} />
        {mode === "diff" && (
          <>
            <label className="round-with">
              <span>{texts.with}</span>
              <select
                className="round-select"
                aria-label={texts.compareWith}
                value={compared}
                onChange={(event) => compareWith(event.target.value)}
              >
                {choices.map((choice) => (
                  <option key={choice.round} value={choice.round}>
                    {texts.roundOption(choice.number)}
                  </option>
                ))}
              </select>
            </label>
            {before !== text && <Counts before={old} after={pretty ?? text} />}
          </>
        )}
      </div>
      {mode === "raw" ? (
        <Raw text={text} data={execution.data} />
      ) : mode === "diff" ? (
        <Compared before={old} after={pretty ?? text} isJson={pretty !== null} wasLive={wasLive} />
      ) : (
        <Plain text={text} pretty={pretty} wasLive={wasLive} />
      )}
    </>
  );
}

function Counts({ before, after }: { before: string; after: string }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { added, removed } = useMemo(() => countWords(wordDiff(before, after)), [before, after]);
  return (
    <span className="round-counts" role="img" aria-label={texts.changedWords(added, removed)}>
      <span className="round-added">+{formats.number(added)}</span>{" "}
      <span className="round-removed">−{formats.number(removed)}</span> {texts.words}
    </span>
  );
}

function Compared({
  before,
  after,
  isJson,
  wasLive,
}: {
  before: string;
  after: string;
  isJson: boolean;
  wasLive: boolean;
}) {
  const isCode = looksLikeCode(after) || looksLikeCode(before);
  return (
    <div className={`round-text ${isCode || isJson ? "mono" : ""}`}>
      <Expandable text={after} isOpen={wasLive}>
        <WordDiff before={before} after={after} kind={isCode ? "lines" : "words"} />
      </Expandable>
    </div>
  );
}

function Plain({ text, pretty, wasLive }: { text: string; pretty: string | null; wasLive: boolean }) {
  const texts = useMessages(messages);
  if (!text) return <p className="dim">{texts.noOutput}</p>;
  const isMono = pretty !== null || looksLikeCode(text);
  return (
    <div className={`round-text ${isMono ? "mono" : ""}`}>
      <ExpandableText text={pretty ?? text} isOpen={wasLive} />
    </div>
  );
}

function Raw({ text, data }: { text: string; data: Record<string, unknown> | undefined }) {
  const texts = useMessages(messages);
  return (
    <div className="round-raw">
      <RawPart title={texts.rawText} text={text} />
      {data !== undefined && <RawPart title={texts.rawData} text={asText(data)} />}
    </div>
  );
}

export function RawPart({ title, text }: { title: string; text: string }) {
  const texts = useMessages(messages);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => toast(texts.copied),
      (error: unknown) => toastError(error),
    );
  return (
    <section>
      <header className="round-raw-head">
        <h3>{title}</h3>
        <Button kind="quiet" icon="copy" aria-label={`${texts.copy}: ${title}`} onClick={() => void copy()} />
      </header>
      <div className="round-text mono">
        <ExpandableText text={text} />
      </div>
    </section>
  );
}
