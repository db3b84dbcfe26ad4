import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { keys, queryClient, useMe } from "../../api/queries";
import { readRounds } from "../../api/rounds";
import type { RunPlan, RunView } from "../../api/schema";
import { isOver } from "../../api/statuses";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { parseAddress } from "../../live/address";
import type { RunModel } from "../../live/run_model";
import { useRunEvents, type RunStore } from "../../live/useRunEvents";
import { Button, Segmented } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Later, later } from "../../ui/later";
import { Failure, Loading } from "../../ui/State";
import { Status } from "../../ui/Status";
import { decisionOf, proofOf, repeatingNodes } from "../run/context";
import { alignLoops, alignRounds, areRelated, sharedCount, type AlignedLoop } from "./align";
import { ChangesPane } from "./ChangesPane";
import { editsOnlyIn, graphChanges, limitChanges } from "./changes";
import { copiedTokens, figuresOf } from "./figures";
import { Letter } from "./Letter";
import { messages } from "./messages";
import { RoundRows, type TextMode } from "./RoundRows";
import { ScoreChart } from "./ScoreChart";
import { firstPassing, inWords } from "./words";

const ForkDialog = later(() => import("../fork/ForkDialog"));

export interface Side {
  view: RunView;
  plan: RunPlan;
}

/** Changes at most so often: a page that compares two running loops need not be drawn for each event. */
const REDRAW_MS = 400;

function useSlowVersion(store: RunStore): number {
  const [version, setVersion] = useState(() => store.getState().version);
  useEffect(() => {
    let timer = 0;
    const update = () => {
      timer = 0;
      setVersion(store.getState().version);
    };
    // The first events come at once; later ones are gathered.
    update();
    const stop = store.subscribe((state, before) => {
      if (state.isLoaded !== before.isLoaded) update();
      else timer ||= window.setTimeout(update, REDRAW_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [store]);
  return version;
}

/** The novelty of each round by address: events do not have it. */
function useNovelty(id: string, rounds: number): ReadonlyMap<string, number | null> {
  const { data } = useQuery({
    queryKey: [...keys.rounds(id), "novelty", rounds],
    queryFn: ({ signal }) => readRounds(id, {}, signal),
    placeholderData: keepPreviousData,
  });
  return useMemo(
    () => new Map((data ?? []).flatMap((loop) => loop.rounds.map((round) => [round.address, round.novelty]))),
    [data],
  );
}

/** The loop that was forked, or else the first. */
function initialStem(loops: readonly AlignedLoop[], forkedAt: string): string {
  const stems = parseAddress(forkedAt).rounds.map((step) => step.stem);
  const found = stems.findLast((stem) => loops.some((loop) => loop.stem === stem));
  return found ?? loops[0]?.stem ?? "";
}

/** The names of loops that a workflow has, entered or not. */
function loopsOf(plan: RunPlan): ReadonlySet<string> {
  return new Set([
    ...plan.loops.map((proof) => proof.id),
    ...plan.drawing.nodes.filter((node) => node.region !== "").map((node) => node.id),
  ]);
}

/** Asks for the run again when it has another status, or another round. */
function useFreshView(id: string, model: RunModel): void {
  const mark = `${model.status} ${model.rounds.size}`;
  const before = useRef(mark);
  useEffect(() => {
    if (before.current === mark) return;
    before.current = mark;
    void queryClient.invalidateQueries({ queryKey: keys.run(id), exact: true });
  }, [id, mark]);
}

export function Comparison({ a, b }: { a: Side; b: Side }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const me = useMe();
  const [, navigate] = useLocation();
  const { store: storeA } = useRunEvents(a.view.id, useMemo(() => repeatingNodes(a.plan), [a.plan]));
  const { store: storeB } = useRunEvents(b.view.id, useMemo(() => repeatingNodes(b.plan), [b.plan]));
  const versions = `${useSlowVersion(storeA)} ${useSlowVersion(storeB)}`;
  const [modelA, modelB] = [storeA.getState().model, storeB.getState().model];
  useFreshView(a.view.id, modelA);
  useFreshView(b.view.id, modelB);
  const noveltyA = useNovelty(a.view.id, modelA.rounds.size);
  const noveltyB = useNovelty(b.view.id, modelB.rounds.size);
  const [chosen, setChosen] = useState<string | null>(null);
  const [mode, setMode] = useState<TextMode>("diff");
  const [isForking, setForking] = useState(false);
  const root = useRef<HTMLDivElement>(null);

  const speakers = useMemo(() => new Set([...a.plan.speakers, ...b.plan.speakers]), [a.plan, b.plan]);
  const isChild = b.view.parent === a.view.id;
  const isRelated = isChild || areRelated(modelA, modelB);
  // The models are changed in place: their versions say when to read them again.
  const loops = useMemo(() => alignLoops(modelA, modelB, speakers), [modelA, modelB, speakers, versions]);
  const stem = chosen !== null && loops.some((loop) => loop.stem === chosen) ? chosen : initialStem(loops, b.view.forked_at);
  const loop = loops.find((one) => one.stem === stem) ?? loops[0];
  const rows = useMemo(
    () => (loop === undefined ? [] : alignRounds(loop, modelA, modelB, speakers, isRelated)),
    [loop, modelA, modelB, speakers, isRelated],
  );
  const loopNames = useMemo(() => ({ a: loopsOf(a.plan), b: loopsOf(b.plan) }), [a.plan, b.plan]);
  const graph = useMemo(() => graphChanges(a.plan, b.plan), [a.plan, b.plan]);
  const limits = useMemo(() => limitChanges(a.plan, b.plan), [a.plan, b.plan]);

  const snapshots = [storeA.getState(), storeB.getState()];
  const failed = snapshots.find((one) => one.error !== null);
  if (failed?.error) return <Failure error={failed.error} onRetry={() => location.reload()} />;
  if (snapshots.some((one) => !one.isLoaded) || loop === undefined) return <Loading lines={8} />;

  const shared = sharedCount(rows);
  const thresholds = [decisionOf(a.plan, loop.loop)?.exit_on_score ?? null, decisionOf(b.plan, loop.loop)?.exit_on_score ?? null];
  const threshold = thresholds[0] === thresholds[1] ? (thresholds[0] ?? null) : null;
  const now = Date.now();
  const copied = isRelated ? copiedTokens(modelB, modelA) : null;
  const noveltyOf = (known: ReadonlyMap<string, number | null>, side: "a" | "b") =>
    (loop[side]?.rounds ?? []).map((round) => known.get(round.address) ?? null);
  const figuresA = figuresOf(modelA, a.view, loop.a, noveltyOf(noveltyA, "a"), null, now);
  const figuresB = figuresOf(modelB, b.view, loop.b, noveltyOf(noveltyB, "b"), copied, now);
  const sentences = inWords(
    {
      a: figuresA,
      b: figuresB,
      threshold,
      passed: { a: firstPassing(loop.a?.rounds ?? [], threshold), b: firstPassing(loop.b?.rounds ?? [], threshold) },
      shared,
      isRelated,
      isOtherWorkflow: graph.isOtherWorkflow,
      isOpen: { a: !isOver(modelA.status), b: !isOver(modelB.status) },
    },
    texts,
    formats,
  );
  const edits = editsOnlyIn(modelB, modelA);
  const relation = isChild
    ? texts.forkOfA(b.view.forked_at)
    : isRelated && a.view.parent && a.view.parent === b.view.parent
      ? texts.siblings(a.view.parent.slice(0, 8))
      : isRelated
        ? texts.related
        : texts.unrelated;
  const proofs = [proofOf(a.plan, loop.loop), proofOf(b.plan, loop.loop)];
  const bounds = proofs.map((proof) => proof?.worst_case_rounds ?? proof?.cap ?? null);
  const bound =
    bounds[0] === null || bounds[1] === null || bounds[0] === undefined || bounds[1] === undefined
      ? ""
      : bounds[0] === bounds[1]
        ? texts.bound(bounds[0], proofs[0]?.bounded_by[0]?.guard ?? "")
        : texts.boundAB(String(bounds[0]), String(bounds[1]));
  const withWhat = [
    edits.length > 0 && texts.withMessage,
    limits.length > 0 && texts.withLimits,
    !graph.isSame && texts.withGraph,
  ].filter((text) => text !== false);
  const mayFork = me.data !== undefined && me.data.role !== "viewer";

  return (
    <div className="compare" ref={root}>
      <header className="compare-bar">
        <nav className="compare-crumbs">
          <Link href="/">{texts.runs}</Link> / <Link href={`/runs/${b.view.id}`}>{graph.isOtherWorkflow ? `${a.view.workflow}, ${b.view.workflow}` : b.view.workflow}</Link> /{" "}
          <h1>{texts.compare}</h1>
        </nav>
        <RunName letter="a" side={a} model={modelA} label={texts.runA} />
        <Icon name="flow" />
        <RunName letter="b" side={b} model={modelB} label={texts.runB} />
        <span className="compare-chip">
          {isChild && <Icon name="fork" size={14} />}
          {relation}
        </span>
        <span className="compare-actions">
          <Link className="button" href={`/runs/${a.view.id}/compare/choose`}>
            {texts.chooseOther}
          </Link>
          {mayFork && (
            <Button icon="fork" onClick={() => setForking(true)}>
              {texts.forkB}
            </Button>
          )}
          <Button onClick={() => navigate(`/runs/${b.view.id}`)}>{texts.openB}</Button>
        </span>
      </header>
      <div className="compare-panes">
        <ChangesPane
          a={a}
          b={b}
          modelA={modelA}
          edits={edits}
          limits={limits}
          graph={graph}
          figures={{ a: figuresA, b: figuresB }}
          sentences={sentences}
          isChild={isChild}
          isFair={!graph.isOtherWorkflow && isOver(modelA.status) && isOver(modelB.status)}
          hasLoop={loop.stem !== ""}
        />
        <section className="compare-main" aria-label={loop.stem || texts.outside}>
          <header className="compare-head">
            <h2>
              {loops.length > 1 ? (
                <label className="compare-loop">
                  <span className="hidden-text">{texts.chooseLoop}</span>
                  <select className="input" value={loop.stem} onChange={(event) => setChosen(event.target.value)}>
                    {loops.map((one) => (
                      <option key={one.stem} value={one.stem}>
                        {one.stem === "" ? texts.outside : `${"\u00a0\u00a0".repeat(one.depth)}${texts.loop} ${one.stem}`}
                      </option>
                    ))}
                  </select>
                </label>
              ) : loop.stem === "" ? (
                texts.outside
              ) : (
                `${texts.loop} ${loop.stem}`
              )}
            </h2>
            {bound && <span className="compare-bound">{bound}</span>}
            <span className="compare-mode">
              <span className="dim small" aria-hidden="true">
                {texts.text}
              </span>
              <Segmented
                label={texts.textOfRounds}
                value={mode}
                onChange={setMode}
                choices={[
                  { value: "diff", text: texts.modeDiff },
                  { value: "last", text: texts.modeLast },
                  { value: "plain", text: texts.modePlain },
                ]}
              />
            </span>
          </header>
          <RoundRows
            key={loop.stem}
            chart={loop.stem === "" ? null : <ScoreChart rows={rows} shared={shared} threshold={threshold} />}
            root={root}
            rows={rows}
            shared={shared}
            loop={loop}
            modelA={modelA}
            modelB={modelB}
            versions={versions}
            speakers={speakers}
            loops={loopNames}
            mode={mode}
            isChild={isChild}
            forked={isChild ? { time: formats.short(b.view.created), withWhat: texts.with(withWhat.join(texts.and)) } : null}
            onLoop={setChosen}
          />
        </section>
      </div>
      {isForking && (
        <Later>
          <ForkDialog runId={b.view.id} at={rows.at(-1)?.b?.address ?? ""} onClose={() => setForking(false)} />
        </Later>
      )}
    </div>
  );
}

function RunName({ letter, side, model, label }: { letter: "a" | "b"; side: Side; model: RunModel; label: string }) {
  return (
    <span className="compare-run">
      <Letter of={letter} isHidden />
      <Link href={`/runs/${side.view.id}`} title={side.view.id}>
        <span className="hidden-text">{label}</span>
        <code>{side.view.id.slice(0, 8)}</code>
      </Link>
      <Status status={model.status} />
    </span>
  );
}
