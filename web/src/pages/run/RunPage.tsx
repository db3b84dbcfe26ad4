// A run, live: the strip of rounds, the graph, the opened round, and what needs a decision.
import { useQuery } from "@tanstack/react-query";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState, type ReactNode, type RefObject } from "react";
import { flushSync } from "react-dom";
import { call } from "../../api/client";
import { keys, queryClient, useMe, useRunView } from "../../api/queries";
import { planRequest } from "../../api/requests";
import type { RunPlan } from "../../api/schema";
import { useSkip } from "../../app/skip";
import { useMessages } from "../../i18n/messages";
import { lastPart, parseAddress, roundOf } from "../../live/address";
import type { Question, RunModel } from "../../live/run_model";
import { useRun, useRunEvents } from "../../live/useRunEvents";
import { Segmented } from "../../ui/Button";
import { Later, later } from "../../ui/later";
import { Failure, Loading } from "../../ui/State";
import { statusMessages } from "../../ui/Status";
import { useKeptFocus } from "../../ui/useKeptFocus";
import { useIsDebugShown } from "./debug/usePaused";
import { newestRound, repeatingNodes, RunContext, useRunContext, type RunContextValue } from "./context";
import { GraphPane } from "./graph/GraphPane";
import { GuardsPane } from "./guards/GuardsPane";
import { useShownLock } from "./locked/useShownLock";
import { messages } from "./messages";
import { useDrafts } from "./people/drafts";
import { LiveBar } from "./round/LiveBar";
import { RoundPanel } from "./round/RoundPanel";
import { RunBar, shownStatus } from "./RunBar";
import { RoundStrip } from "./strip/RoundStrip";
import { useSelection } from "./useSelection";
import "./run.css";

// Most runs need no decision, and most pages none of these.
const LockedMain = later(() => import("./locked/LockedMain").then((found) => ({ default: found.LockedMain })));
const LockedSide = later(() => import("./locked/LockedSide").then((found) => ({ default: found.LockedSide })));
const UnlockedLine = later(() => import("./locked/LockedSide").then((found) => ({ default: found.UnlockedLine })));
const LostDraft = later(() => import("./people/TooLate").then((found) => ({ default: found.LostDraft })));
const QuestionMain = later(() => import("./people/QuestionMain").then((found) => ({ default: found.QuestionMain })));
const QuestionSide = later(() => import("./people/QuestionSide").then((found) => ({ default: found.QuestionSide })));
const DebugMain = later(() => import("./debug/DebugMain").then((found) => ({ default: found.DebugMain })));
const DebugSide = later(() => import("./debug/DebugSide").then((found) => ({ default: found.DebugSide })));
const FailedMain = later(() => import("./failed/FailedMain").then((found) => ({ default: found.FailedMain })));
const FailedSide = later(() => import("./failed/FailedSide").then((found) => ({ default: found.FailedSide })));

export default function RunPage({ runId }: { runId: string }) {
  const plan = useQuery({
    queryKey: keys.plan(runId),
    queryFn: () => call<RunPlan>(...planRequest(runId)),
    staleTime: Infinity,
  });
  // A run that is shown stays while the server is away.
  if (plan.data !== undefined) return <LoadedRun runId={runId} plan={plan.data} />;
  if (plan.error) return <Failure error={plan.error} onRetry={() => void plan.refetch()} command={`roundel show ${runId}`} />;
  return <Loading lines={8} />;
}

function LoadedRun({ runId, plan }: { runId: string; plan: RunPlan }) {
  const composites = useMemo(() => repeatingNodes(plan), [plan]);
  const { store } = useRunEvents(runId, composites);
  const [selected, select] = useSelection();
  const [other, compareWith] = useState("");
  const me = useMe();
  const mayControl = me.data !== undefined && me.data.role !== "viewer";
  const value = useMemo<RunContextValue>(
    () => ({ runId, store, plan, selected, select, other, compareWith, mayControl }),
    [runId, store, plan, selected, select, other, mayControl],
  );
  useStaleAfterEvents(runId, store);
  return (
    <RunContext value={value}>
      <Panes />
      <Announcer />
    </RunContext>
  );
}

/** What the server computes of a run is read again when its status changes. */
function useStaleAfterEvents(runId: string, store: RunContextValue["store"]): void {
  const mark = useRun(store, (model) => `${model.status} ${model.questions.map((one) => one.address).join(" ")} ${model.pause?.address ?? ""}`);
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) {
      isFirst.current = false;
      return;
    }
    void queryClient.invalidateQueries({ queryKey: keys.run(runId), exact: true });
    void queryClient.invalidateQueries({ queryKey: keys.state(runId) });
  }, [runId, mark]);
}

type Tab = "round" | "graph" | "guards";

function Panes() {
  const texts = useMessages(messages);
  const { store, runId } = useRunContext();
  const error = useRun(store, () => store.getState().error);
  const isLoaded = useRun(store, () => store.getState().isLoaded);
  const [tab, setTab] = useState<Tab>("round");
  const view = useRunView(runId);
  const { main, side } = useDecision();
  const hasDraft = useDrafts((state) => Object.values(state.drafts).some((draft) => draft.runId === runId));
  const wasUnlocked = useRun(store, (model) => model.locks.at(-1)?.unlocked != null);
  const [sideShows, setSideShows] = useState<"form" | "guards">("form");
  const sidePane = useRef<HTMLElement>(null);
  const showGraph = useCallback(() => setTab("graph"), []);
  useSkip(side === null ? null : texts.skipToForm, () => {
    flushSync(() => {
      setTab("guards");
      setSideShows("form");
    });
    sidePane.current?.focus();
  });
  // The graph and the rounds first; what is beside them takes a moment that nobody has to wait for.
  const hasPanes = useDeferredValue(isLoaded, false);
  if (!isLoaded) return <Loading lines={8} />;
  if (error) return <Failure error={error} command={`roundel log ${runId}`} />;
  return (
    <div className={`run-page run-tab-${tab}`}>
      <RunBar />
      {hasDraft && (
        <Later>
          <LostDraft />
        </Later>
      )}
      {view.data?.pruned && <p className="run-note">{texts.pruned}</p>}
      <RoundStrip />
      <div className="run-tabs">
        <Segmented<Tab>
          label={texts.panes}
          value={tab}
          onChange={setTab}
          choices={[
            { value: "round", text: texts.round },
            { value: "graph", text: texts.graph },
            { value: "guards", text: side === null ? texts.guards : texts.form },
          ]}
        />
      </div>
      <div className="run-panes">
        <section className="run-pane run-graph" aria-label={texts.graph}>
          <GraphPane onWanted={showGraph} />
        </section>
        <KeepingPane className="run-main" label={texts.round}>
          {wasUnlocked && (
            <Later>
              <UnlockedLine />
            </Later>
          )}
          <div className="run-scroll">
            <Later fallback={<Loading />}>{hasPanes ? (main ?? <RoundPanel />) : <Loading />}</Later>
          </div>
          {hasPanes && <LiveBar />}
        </KeepingPane>
        <KeepingPane ref={sidePane} className="run-side" label={side === null ? texts.guards : texts.form}>
          {side !== null && (
            <div className="run-side-choice">
              <Segmented
                label={texts.side}
                value={sideShows}
                onChange={setSideShows}
                choices={[
                  { value: "form", text: texts.form },
                  { value: "guards", text: texts.guards },
                ]}
              />
            </div>
          )}
          <div className="run-scroll">
            <Later fallback={<Loading />}>
              {!hasPanes ? <Loading /> : side === null || sideShows === "guards" ? <GuardsPane /> : side}
            </Later>
          </div>
        </KeepingPane>
      </div>
    </div>
  );
}

/** A pane whose content changes with the run, also while somebody is in it with the keyboard. */
function KeepingPane({
  ref,
  className,
  label,
  children,
}: {
  ref?: RefObject<HTMLElement | null>;
  className: string;
  label: string;
  children: ReactNode;
}) {
  const own = useRef<HTMLElement>(null);
  const frame = ref ?? own;
  useKeptFocus(frame);
  return (
    <section ref={frame} className={`run-pane ${className}`} aria-label={label} tabIndex={-1}>
      {children}
    </section>
  );
}

interface Decision {
  /** In place of the opened round; null to show it. */
  main: ReactNode;
  /** In place of the guards. */
  side: ReactNode;
}

/** What a person has to decide now. The opened round stays on the left if another one is selected. */
function useDecision(): Decision {
  const { store, selected } = useRunContext();
  const status = useRun(store, (model) => model.status);
  const question = useRun(store, (model) => currentQuestion(model, selected));
  const place = useRun(store, (model) => decisionPlace(model));
  // Both stay while a person's text is there that somebody else has made obsolete.
  const lock = useShownLock();
  const isDebugShown = useIsDebugShown();
  const isHere = !selected || selected === place || roundOf(selected) === roundOf(place) || selected === roundOf(place);
  const decide = (main: ReactNode, side: ReactNode): Decision => ({ main: isHere ? main : null, side });
  if (lock !== undefined) return decide(<LockedMain />, <LockedSide />);
  if (status === "waiting" && question !== undefined) {
    return decide(<QuestionMain question={question} />, <QuestionSide question={question} />);
  }
  if (isDebugShown) return decide(<DebugMain />, <DebugSide />);
  if (status === "failed") return decide(<FailedMain />, <FailedSide />);
  return { main: null, side: null };
}

function currentQuestion(model: RunModel, selected: string): Question | undefined {
  return model.questions.find((one) => one.address === selected) ?? model.questions[0];
}

function decisionPlace(model: RunModel): string {
  if (model.status === "suspended_locked") return model.locks.at(-1)?.address || newestRound(model);
  if (model.status === "paused") return model.pause?.address || newestRound(model);
  if (model.status === "waiting") return model.questions[0]?.address ?? newestRound(model);
  return newestRound(model);
}

/** Tells screen readers about rounds, locks and questions; never about text as it is written. */
function Announcer() {
  const texts = useMessages(messages);
  const statuses = useMessages(statusMessages);
  const { store, plan } = useRunContext();
  const status = useRun(store, shownStatus);
  const round = useRun(store, (model) => model.rounds.get(newestRound(model)));
  const question = useRun(store, (model) => model.questions[0]);
  const lock = useRun(store, (model) => model.locks.at(-1));
  const isLoaded = useRun(store, () => store.getState().isLoaded);
  // With the round: a text that stays the same is not read out again.
  const roundAt = (address: string) => parseAddress(address).rounds.at(-1)?.round ?? 0;
  useEffect(() => {
    document.title = texts.title(plan.workflow, statuses[status]);
    return () => {
      document.title = "Roundel";
    };
  }, [texts, plan.workflow, statuses, status]);
  const text =
    status === "suspended_locked"
      ? texts.announceLocked(roundAt(lock?.address ?? ""))
      : question !== undefined
        ? texts.announceQuestion(lastPart(question.address), roundAt(question.address))
        : status === "running" && round !== undefined
          ? texts.announceRound(round.loop, round.number)
          : texts.announceOver(statuses[status]);
  return (
    <div className="hidden-text" role="status" aria-live="polite">
      {isLoaded && text}
    </div>
  );
}
