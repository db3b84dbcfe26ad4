// The middle pane: one round with everything that ran in it, or what ran outside of all loops.
//
// Live events change only what is shown: text is appended in the round that runs. They never scroll, and
// never fold or unfold anything.
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useStore } from "zustand";
import { useShallow } from "zustand/react/shallow";
import { isOver } from "../../../api/statuses";
import { useKeys } from "../../../app/keys";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { costOf, tokensOf, type Round } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { workSeconds } from "../../../live/work";
import { Button } from "../../../ui/Button";
import { ExpandableText } from "../../../ui/Expandable";
import { Icon } from "../../../ui/Icon";
import { Empty, Failure, Loading } from "../../../ui/State";
import { toast, toastError } from "../../../ui/toasts";
import { bestRound, newestRound, previousRound, useRunContext } from "../context";
import { entriesOf, executionAt, listed, loopSummary, placeOf, sentOn, type Entry } from "./entries";
import { ExecutionCard } from "./ExecutionCard";
import { messages } from "./messages";
import type { Mode } from "./OutputView";
import { useThrottled } from "./throttle";
import "./round.css";

export function RoundPanel() {
  const texts = useMessages(messages);
  const { store, selected, select } = useRunContext();
  const isLoaded = useStore(store, (state) => state.isLoaded);
  const error = useStore(store, (state) => state.error);
  // Rounds may be shorter than a frame: nobody could read what each of them shows.
  const place = useThrottled(store, selected, (model) => (selected ? placeOf(model, selected) : newestRound(model)), 200);
  const entries = useEntries(place);
  const addresses = useMemo(() => listed(entries), [entries]);
  const [modes, setModes] = useState<Readonly<Record<string, Mode>>>({});
  // What `D` has chosen for all nodes.
  const [common, setCommon] = useState<Mode | undefined>(undefined);
  const onMode = useCallback((key: string, mode: Mode) => setModes((before) => ({ ...before, [key]: mode })), []);
  const scroller = useRef<HTMLDivElement>(null);
  useScrollToSelected(scroller, selected, place, isLoaded ? addresses.length : -1);

  const current = executionAt(store.getState().model, selected);
  const move = (step: 1 | -1) => {
    const at = addresses.indexOf(current);
    const next = at < 0 ? addresses[step > 0 ? 0 : addresses.length - 1] : addresses[at + step];
    if (next !== undefined) select(next);
  };
  useKeys([
    { keys: "[", text: texts.previousNode, action: () => move(-1) },
    { keys: "]", text: texts.nextNode, action: () => move(1) },
    {
      keys: "D",
      text: texts.diffOnOff,
      action: () => {
        const isOn = scroller.current?.querySelector(".diff") !== null;
        setModes({});
        setCommon(isOn ? "output" : "diff");
      },
    },
    { keys: "Y", text: texts.copyAddress, action: () => void copyAddress(selected || place, texts.copiedAddress) },
  ]);

  return (
    <div className="round">
      <Header place={place} />
      <div className="round-scroll" ref={scroller} tabIndex={-1}>
        {!isLoaded ? (
          <Loading />
        ) : error !== null ? (
          <Failure error={error} />
        ) : (
          <>
            <PlaceWarnings place={place} />
            {entries.map((entry) => (
              <EntryView
                key={entry.kind === "execution" ? entry.address : entry.kind === "loop" ? entry.stem : entry.addresses[0]}
                entry={entry}
                selected={selected}
                current={current}
                modes={modes}
                common={common}
                onMode={onMode}
              />
            ))}
            {entries.length === 0 && <Empty>{place ? texts.nothingHere : texts.nothing}</Empty>}
            <Sent place={place} />
            <Left place={place} />
          </>
        )}
      </div>
    </div>
  );
}

async function copyAddress(address: string, told: (address: string) => string): Promise<void> {
  if (!address) return;
  try {
    await navigator.clipboard.writeText(address);
    toast(told(address));
  } catch (error) {
    toastError(error);
  }
}

function useEntries(place: string): Entry[] {
  const { store } = useRunContext();
  // These change when something begins; the length of the whole sequence does for the outermost level.
  const executions = useRun(store, (model) => (place ? model.rounds.get(place)?.executions : undefined));
  const inner = useRun(store, (model) => (place ? model.rounds.get(place)?.inner : model.order));
  const length = useRun(store, (model) => (place ? 0 : model.sequence.length));
  return useMemo(
    () => entriesOf(store.getState().model, place),
    [store, place, executions, inner, length],
  );
}

/** Scrolls once to what was selected, as soon as it is there. */
function useScrollToSelected(
  scroller: React.RefObject<HTMLDivElement | null>,
  selected: string,
  place: string,
  count: number,
): void {
  const done = useRef("");
  useLayoutEffect(() => {
    // Another round begins at its top.
    scroller.current?.scrollTo({ top: 0 });
  }, [scroller, place]);
  useEffect(() => {
    if (done.current === selected) return;
    const element = selected && scroller.current?.querySelector(`[data-address="${CSS.escape(selected)}"]`);
    if (!selected) done.current = "";
    if (!element) return;
    done.current = selected;
    const frame = scroller.current;
    if (frame === null || frame.scrollHeight <= frame.clientHeight) {
      // On phones the page scrolls, and not the pane.
      element.scrollIntoView({ block: "nearest" });
      return;
    }
    // Not `scrollIntoView`: it would also scroll what is around the pane.
    const own = element.getBoundingClientRect();
    const box = frame.getBoundingClientRect();
    if (own.top < box.top || own.bottom > box.bottom) frame.scrollTop += own.top - box.top;
  }, [scroller, selected, place, count]);
}

function Header({ place }: { place: string }) {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  const round = useRun(store, (model) => model.rounds.get(place));
  const hasLoops = useRun(store, (model) => model.order.length > 0);
  return (
    <header className="round-header">
      {round === undefined ? <h2>{hasLoops ? texts.outside : texts.nodes}</h2> : <RoundHeader round={round} />}
    </header>
  );
}

function RoundHeader({ round }: { round: Round }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store, select } = useRunContext();
  const entry = useRun(store, (model) => model.loops.get(round.stem));
  const idle = useRun(store, (model) => model.idle);
  const cost = costOf(round);
  const over = useRun(store, (model) => isOver(model.status));
  const rounds = entry?.rounds ?? [];
  const at = rounds.findIndex((one) => one.address === round.address);
  const before = rounds[at - 1];
  const after = rounds[at + 1];
  const isBest = entry !== undefined && bestRound(entry)?.address === round.address;
  const previous = previousRound(store.getState().model, round.address);
  const gain = round.score !== null && previous?.score != null ? round.score - previous.score : null;
  return (
    <>
      <h2 title={round.address}>{texts.round(round.number)}</h2>
      <span className="round-steps">
        <Button icon="left" aria-label={texts.previous} disabled={!before} onClick={() => before && select(before.address)} />
        <Button icon="right" aria-label={texts.next} disabled={!after} onClick={() => after && select(after.address)} />
      </span>
      {isBest && (
        <span className="round-best">
          <Icon name="star" size={14} />
          <span>{entry.exit === null && !over ? texts.bestSoFar : texts.bestRound}</span>
        </span>
      )}
      <span className="round-figures">
        {round.score !== null && (
          <span>
            {texts.score} <strong>{formats.decimal(round.score)}</strong>
            {gain !== null && gain !== 0 && (
              <span className={gain > 0 ? "round-added" : "round-removed"}>
                {" "}
                {gain > 0 ? "+" : "−"}
                {formats.decimal(Math.abs(gain))}
              </span>
            )}
          </span>
        )}
        <span className="round-figure-time">
          <strong>{formats.duration(workSeconds(idle, round.started, round.ended))}</strong>
        </span>
        {tokensOf(round.usage) > 0 && (
          <span>
            <strong>{formats.number(tokensOf(round.usage))}</strong> {texts.tokens}
          </span>
        )}
        {cost !== null && (
          <span className="round-figure-cost">
            <strong>{formats.cost(cost)}</strong>
          </span>
        )}
      </span>
    </>
  );
}

function EntryView({
  entry,
  selected,
  current,
  modes,
  common,
  onMode,
}: {
  entry: Entry;
  selected: string;
  /** The execution that is selected, or made the selected tool call. */
  current: string;
  modes: Readonly<Record<string, Mode>>;
  common: Mode | undefined;
  onMode: (key: string, mode: Mode) => void;
}) {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  if (entry.kind === "loop") return <LoopLine stem={entry.stem} />;
  const card = (address: string) => {
    const key = store.getState().model.executions.get(address)?.key ?? "";
    // The others are not drawn again when the selection changes.
    const own = address === current ? selected : "";
    return <ExecutionCard key={address} address={address} selected={own} mode={modes[key] ?? common} onMode={onMode} />;
  };
  if (entry.kind === "execution") return card(entry.address);
  return (
    <div className="round-group" role="group" aria-label={texts.inside(entry.path)}>
      <div className="round-group-head">
        <Icon name="subgraph" size={14} />
        {texts.inside(entry.path)}
      </div>
      {entry.addresses.map(card)}
    </div>
  );
}

/** A loop that was entered in this round, as one line that leads to its rounds. */
function LoopLine({ stem }: { stem: string }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store, select } = useRunContext();
  const entry = useRun(store, (model) => model.loops.get(stem));
  if (entry === undefined) return null;
  const { rounds, best, score } = loopSummary(entry);
  const parts = [texts.loopRounds(rounds)];
  if (best !== null && score !== null) parts.push(texts.loopBest(best, formats.decimal(score)));
  parts.push(entry.exit === null ? texts.loopOpen : texts.loopLeft(texts.reason(entry.exit.reason)));
  const last = entry.rounds.at(-1)?.address ?? "";
  return (
    <button type="button" className="round-line round-loop" onClick={() => select(last)} aria-label={`${texts.openLoop(entry.loop)}: ${parts.join(", ")}`}>
      <span className="round-icon round-icon-loop">
        <Icon name="loop" />
      </span>
      <span className="round-name">{entry.loop}</span>
      <span className="round-sentence">{parts.join(" · ")}</span>
      <Icon name="right" size={14} />
    </button>
  );
}

/** What the next round received. */
function Sent({ place }: { place: string }) {
  const texts = useMessages(messages);
  const { store, plan } = useRunContext();
  const round = useRun(store, (model) => model.rounds.get(place));
  const count = useRun(store, (model) => model.loops.get(round?.stem ?? "")?.rounds.length ?? 0);
  const isOpen = round?.isOpen ?? false;
  const sent = useMemo(
    () => (isOpen ? [] : sentOn(store.getState().model, place)),
    [store, plan, place, count, isOpen],
  );
  return sent.map(({ source, target }) => (
    <SentLine key={source} source={source} target={target} from={texts.from} />
  ));
}

function SentLine({ source, target, from }: { source: string; target: string; from: (source: string) => string }) {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  const [isOpen, setOpen] = useState(false);
  const execution = useRun(store, (model) => model.executions.get(source));
  const text = execution?.output ?? "";
  return (
    <section className="round-sent">
      <button type="button" className="round-line" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span className="round-icon">
          <Icon name="flow" />
        </span>
        <span className="round-name">{texts.to(target)}</span>
        <span className="round-sent-text mono">{isOpen ? "" : text.slice(0, 300)}</span>
        <span className="round-aside">{from(execution?.node_id ?? "")}</span>
      </button>
      {isOpen && (
        <div className="round-inset">
          <div className="round-text mono">
            <ExpandableText text={text} />
          </div>
        </div>
      )}
    </section>
  );
}

/** The end of the loop, in its last round. */
function Left({ place }: { place: string }) {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  const round = useRun(store, (model) => model.rounds.get(place));
  const entry = useRun(store, (model) => model.loops.get(round?.stem ?? ""));
  if (!entry?.exit || entry.rounds.at(-1)?.address !== place) return null;
  return (
    <div className="round-line">
      <span className="round-icon round-icon-exit">
        <Icon name="exit" />
      </span>
      <span className="round-name">{texts.left(entry.loop)}</span>
      <span className="round-sentence">{texts.leftAfter(entry.exit.rounds, texts.reason(entry.exit.reason))}</span>
      {entry.exit.by && <span className="round-aside">{entry.exit.by}</span>}
    </div>
  );
}

/** Warnings about the round itself; those of nodes stand at the nodes. */
function PlaceWarnings({ place }: { place: string }) {
  const { store } = useRunContext();
  const warnings = useStore(
    store,
    useShallow(({ model }) =>
      model.warnings.filter(({ address }) => address === place && !model.executions.has(address)),
    ),
  );
  return warnings.map((warning, index) => (
    <p key={index} className="round-note round-note-warning round-inset">
      <Icon name="warning" size={14} />
      <span>{warning.text}</span>
    </p>
  ));
}
