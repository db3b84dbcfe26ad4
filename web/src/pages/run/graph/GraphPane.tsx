// The graph of a run: what runs, what is proved, where it stands; now, or at the end of the selected round.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useQueryClient } from "@tanstack/react-query";
import type { Viewport } from "@xyflow/react";
import { createStore } from "zustand";
import { call } from "../../../api/client";
import { keys, useRunState } from "../../../api/queries";
import type { BreakpointState, RunState } from "../../../api/schema";
import { useKeys } from "../../../app/keys";
import { useSkip } from "../../../app/skip";
import { fitAll, fitWidth, sceneOf } from "../../../graph/scene";
import { useMessages } from "../../../i18n/messages";
import { roundOf } from "../../../live/address";
import { nodeKey } from "../../../live/path";
import { useRun } from "../../../live/useRunEvents";
import { Button, Segmented } from "../../../ui/Button";
import { Empty } from "../../../ui/State";
import { toast, toastError } from "../../../ui/toasts";
import { useRunContext } from "../context";
import { Canvas, type Flow } from "./Canvas";
import { NOTHING_WAITS, readyOf, stopsOf, waitingOf } from "./debugging";
import { AT_FIRST, GraphContext, type GraphContextValue, type Shown } from "./graph_context";
import { messages } from "./messages";
import { Outline } from "./Outline";
import { lockedLoop, stateAt } from "./states";
import "./graph_pane.css";

const NOT_READY: Shown["ready"] = new Map();

export function GraphPane({ onWanted }: { /** The reader goes to the graph, which may be behind another tab. */ onWanted: () => void }) {
  const { runId, store, plan, selected, select, mayControl } = useRunContext();
  const texts = useMessages(messages);
  const queries = useQueryClient();
  const scene = useMemo(() => sceneOf(plan, texts.edge), [plan, texts]);
  const [shown] = useState(() => createStore<Shown>(() => ({ ...AT_FIRST, cursor: scene.first })));
  const [isOutline, setOutline] = useState(false);
  const flow = useRef<Flow | null>(null);
  const view = useRef<Viewport | null>(null);
  const pane = useRef<HTMLDivElement>(null);

  // The past: the selected round, unless the reader asked for the present, or the round still goes on.
  const round = useRun(store, (model) => (selected ? model.rounds.get(roundOf(selected)) : undefined));
  const [isLive, setLive] = useState(true);
  const isOpen = round?.isOpen ?? true;
  useEffect(() => setLive(isOpen), [selected, round === undefined]);
  const pastRound = isLive ? undefined : round;
  useEffect(() => {
    const { model } = store.getState();
    shown.setState({ past: pastRound === undefined ? null : stateAt(model, scene, pastRound) });
  }, [pastRound, scene, shown, store]);

  // What the debugger knows.
  const status = useRun(store, (model) => model.status);
  const isPaused = status === "paused";
  const paused = useRun(store, (model) => (isPaused ? model.seq : 0));
  const locked = useRun(store, (model) => lockedLoop(model, scene));
  const { data: state } = useRunState(runId);
  useEffect(() => {
    // Queues and what is ready change with each step, and a paused run takes few.
    void queries.invalidateQueries({ queryKey: keys.state(runId) });
  }, [paused, status, queries, runId]);
  useEffect(() => {
    if (state === undefined) return;
    const { composites } = store.getState().model;
    shown.setState({
      stops: stopsOf(scene, state.breakpoints),
      waiting: isPaused ? waitingOf(scene, state.queues, composites) : NOTHING_WAITS,
      ready: isPaused ? readyOf(state, composites) : NOT_READY,
    });
  }, [state, isPaused, scene, shown, store]);
  useEffect(() => {
    const { composites } = store.getState().model;
    const isNode = selected !== "" && roundOf(selected) !== selected;
    shown.setState({ locked, selected: isNode ? nodeKey(selected, composites) : "" });
  }, [locked, selected, shown, store]);

  const choose = useCallback(
    (key: string) => {
      const { past } = shown.getState();
      const address = past ? past.nodes.get(key)?.address : store.getState().model.nodes.get(key)?.address;
      if (address) select(address);
    },
    [shown, store, select],
  );
  const toggleStop = useCallback(
    async (key: string) => {
      const node = scene.byKey.get(key);
      if (node === undefined || !mayControl) return;
      const isSet = shown.getState().stops.get(key) === "node";
      try {
        const body = isSet ? { remove: [node.id] } : { add: [node.id] };
        const breakpoints = await call<BreakpointState[]>(`/runs/${runId}/breakpoints`, { body });
        queries.setQueryData<RunState>(keys.state(runId), (before) => before && { ...before, breakpoints });
        toast(isSet ? texts.stopRemoved(node.id) : texts.stopSet(node.id));
      } catch (error) {
        toastError(error);
      }
    },
    [scene, shown, mayControl, runId, queries, texts],
  );
  const context = useMemo(
    (): GraphContextValue => ({ run: store, scene, shown, mayControl, choose, toggleStop: (key) => void toggleStop(key) }),
    [store, scene, shown, mayControl, choose, toggleStop],
  );

  const goToGraph = () => {
    onWanted();
    shown.setState(({ cursor }) => ({ wanted: cursor }));
  };
  useSkip(texts.skipToGraph, goToGraph);
  useKeys([
    { keys: "G", text: texts.focusGraph, action: goToGraph },
    { keys: "O", text: texts.outline, action: () => setOutline((now) => !now) },
  ]);

  const fit = () => {
    const box = pane.current?.querySelector(".graph-canvas");
    if (!box || flow.current === null) return;
    const size = { width: box.clientWidth, height: box.clientHeight };
    const wide = fitWidth(scene, size);
    const now = flow.current.getViewport();
    const isWide = Math.abs(now.zoom - wide.zoom) < 0.005 && Math.abs(now.y - wide.y) < 1 && Math.abs(now.x - wide.x) < 1;
    // Pressed again it shows everything, however small.
    void flow.current.setViewport(isWide ? fitAll(scene, size) : wide);
  };
  const hasStops = (state?.breakpoints.length ?? 0) > 0;
  return (
    <GraphContext.Provider value={context}>
      <div ref={pane} className="graph">
        <header className="graph-header">
          <h2>{texts.graph}</h2>
          {isPaused && hasStops && (
            <span className="graph-legend">
              <i className="graph-legend-stop" />
              {texts.legendBreakpoint}
            </span>
          )}
          {isPaused && (
            <span className="graph-legend">
              <i className="graph-legend-waiting" />
              {texts.legendWaiting}
            </span>
          )}
          {round !== undefined && (
            <Segmented
              label={texts.shown}
              value={isLive ? "live" : "past"}
              choices={[
                { value: "live", text: texts.live },
                { value: "past", text: texts.atRound(round.number) },
              ]}
              onChange={(value) => setLive(value === "live")}
            />
          )}
        </header>
        <div className="graph-body">
          {scene.drawing.nodes.length === 0 ? (
            <Empty>
              <p>{texts.tooLarge}</p>
              {scene.drawing.problems.map((problem) => (
                <code key={problem.message}>{problem.message}</code>
              ))}
            </Empty>
          ) : isOutline ? (
            <Outline />
          ) : (
            <Canvas view={view} onReady={(made) => (flow.current = made)} />
          )}
          <div className="graph-tools">
            {!isOutline && (
              <>
                <Button icon="minus" aria-label={texts.zoomOut} title={texts.zoomOut} onClick={() => void flow.current?.zoomOut()} />
                <Button icon="plus" aria-label={texts.zoomIn} title={texts.zoomIn} onClick={() => void flow.current?.zoomIn()} />
                <Button icon="fit" aria-label={texts.fit} title={texts.fit} onClick={fit} />
              </>
            )}
            <Button
              icon="list"
              aria-label={texts.outline}
              title={texts.outline}
              aria-pressed={isOutline}
              aria-keyshortcuts="O"
              onClick={() => setOutline(!isOutline)}
            />
          </div>
        </div>
      </div>
    </GraphContext.Provider>
  );
}
