// One line about what runs now, while another round is shown.
import { isOver, type RunStatus } from "../../../api/statuses";
import { useKeys } from "../../../app/keys";
import { useMessages } from "../../../i18n/messages";
import type { Execution, RunModel } from "../../../live/run_model";
import { Button } from "../../../ui/Button";
import { StatusShape } from "../../../ui/Status";
import { newestRound, useRunContext } from "../context";
import { placeOf } from "./entries";
import { inlineArguments } from "./json";
import { messages } from "./messages";
import { useThrottled } from "./throttle";
import "./live_bar.css";

/** At most four updates a second: more cannot be read. */
const PAUSE = 250;

export interface Live {
  status: RunStatus;
  round: number | null;
  node: string;
  /** What the node does: a tool call, or the end of what the model has written. */
  text: string;
  isWaiting: boolean;
}

/** What runs now. Null if the run is over, or runs in the round that is shown. */
export function liveOf(model: RunModel, shown: string): Live | null {
  const { status } = model;
  if (isOver(status)) return null;
  const place = newestRound(model);
  if (place === shown) return null;
  let active: Execution | undefined;
  for (const address of model.active) active = model.executions.get(address) ?? active;
  return {
    status,
    round: model.rounds.get(place)?.number ?? null,
    node: active?.node_id ?? "",
    text: active === undefined ? "" : doing(active),
    isWaiting: active?.status === "waiting",
  };
}

function doing(execution: Execution): string {
  const tool = execution.tools.findLast((one) => one.ended === null);
  if (tool !== undefined) return `${tool.name}(${inlineArguments(tool.arguments)})`;
  if (execution.progress !== null) return execution.progress.text;
  return execution.streamed.slice(-160).replace(/\s+/g, " ").trim();
}

function isSame(a: Live | null, b: Live | null): boolean {
  if (a === null || b === null) return a === b;
  return a.status === b.status && a.round === b.round && a.node === b.node && a.text === b.text && a.isWaiting === b.isWaiting;
}

export function LiveBar() {
  const { store, selected } = useRunContext();
  const live = useThrottled(
    store,
    selected,
    (model) => (selected ? liveOf(model, placeOf(model, selected)) : null),
    PAUSE,
    isSame,
  );
  return live === null ? null : <Bar live={live} />;
}

function Bar({ live }: { live: Live }) {
  const texts = useMessages(messages);
  const { select } = useRunContext();
  useKeys([{ keys: "L", text: texts.goToLive, action: () => select("") }]);
  const what =
    live.status === "suspended_locked"
      ? texts.lockedLive
      : live.status === "paused"
        ? texts.pausedLive
        : live.isWaiting && !live.text
          ? texts.waitsFor(live.node)
          : live.text
            ? `${live.node}: ${live.text}`
            : live.node;
  return (
    <aside className="live-bar" aria-label={texts.liveBar}>
      <StatusShape status={live.isWaiting ? "waiting" : live.status} />
      <strong>{live.round === null ? texts.outsideLive : texts.round(live.round)}</strong>
      <span className="live-bar-text mono">{what}</span>
      <span className="live-bar-stays">{texts.selectionStays}</span>
      <Button hint="L" onClick={() => select("")}>
        {texts.goToLive}
      </Button>
    </aside>
  );
}
