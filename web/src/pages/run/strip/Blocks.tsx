// What is no round: time without work, the state in which a run rests, and what is still possible.
import { memo } from "react";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { Lock, Question, RunModel } from "../../../live/run_model";
import { nodeOf, parseAddress } from "../../../live/address";
import { StatusShape, type ShownStatus } from "../../../ui/Status";
import type { Gap } from "./layout";
import { messages } from "./messages";
import type { Pause } from "./tree";

function useGapText() {
  const texts = useMessages(messages);
  return (pause: Pause): string => {
    switch (pause.status) {
      case "waiting":
        return texts.gapWaiting(nodeOf(pause.at || pause.reason.replace(/^for /, "")));
      case "paused":
        return texts.gapPaused;
      case "suspended_locked":
        return pause.by ? texts.gapUnlockedBy(pause.by) : texts.gapLocked;
      case "over":
        return texts.gapOver;
      case "nothing":
        return texts.gapNothing;
    }
  };
}

export const GapView = memo(function GapView({ gap, top, height }: { gap: Gap; top: number; height: number }) {
  const formats = useFormats();
  const texts = useMessages(messages);
  const { pause } = gap;
  const why = useGapText()(pause);
  const took = formats.duration(((pause.to ?? pause.from) - pause.from) / 1000);
  const isWide = gap.width >= 60;
  return (
    <div
      className={`strip-gap is-${pause.status}`}
      style={{ left: gap.x, width: gap.width, top, height }}
      role="img"
      aria-label={texts.gapLabel(took, why)}
      title={texts.gapLabel(took, why)}
    >
      {pause.status === "suspended_locked" && <StatusShape status="suspended_locked" size={12} />}
      {isWide && (
        <>
          <b>{took}</b>
          <span className="ellipsis">{why}</span>
        </>
      )}
    </div>
  );
});

/** A lock between two bands. */
export function LockMark({ x, pause, top, height }: { x: number; pause: Pause; top: number; height: number }) {
  const formats = useFormats();
  const texts = useMessages(messages);
  const took = pause.to === null ? "" : formats.duration((pause.to - pause.from) / 1000);
  return (
    <div className="strip-lock-mark" style={{ left: x - 1, top, height }} role="img" aria-label={texts.gapLabel(took, texts.gapLocked)}>
      <span>
        <StatusShape status="suspended_locked" size={11} />
      </span>
      <em>{took}</em>
    </div>
  );
}

export const REST_WIDTH: Record<Pause["status"], number> = {
  waiting: 240,
  paused: 236,
  suspended_locked: 160,
  over: 136,
  nothing: 120,
};

interface RestProps {
  rest: Pause;
  now: number;
  lock: Lock | undefined;
  question: Question | undefined;
  pause: RunModel["pause"];
  status: RunModel["status"];
  x: number;
  top: number;
  height: number;
}

/** The state in which the run rests now. A click selects the round in which it rests. */
export function RestView({ rest, now, lock, question, pause, status, x, top, height }: RestProps) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const seconds = Math.floor(Math.max(0, now - rest.from) / 1000);
  const took = seconds < 60 ? texts.seconds(seconds) : formats.duration(seconds);
  let shape: ShownStatus = status;
  let title: string;
  let note = "";
  let address = rest.at;
  if (rest.status === "waiting") {
    address = question?.address ?? rest.at;
    const who = nodeOf(address || rest.reason.replace(/^for /, ""));
    shape = question?.tool ? "approval" : "waiting";
    title = question?.tool ? texts.approvalOf(question.tool.name, took) : texts.waitsFor(who, took);
    note =
      question?.deadline == null
        ? texts.noDeadline
        : texts.timeLeft(formats.duration(Math.max(0, Date.parse(question.deadline) - now) / 1000)) + (question.tool ? texts.thenRejected : "");
  } else if (rest.status === "paused") {
    address = pause?.address ?? "";
    title = address ? texts.pausedBefore(nodeOf(address), took) : texts.pausedSince(took);
    note = pause?.breakpoint ? texts.breakpoint(pause.breakpoint.replace(/^cel: /, "")) : pause?.reason === "step" ? texts.step : texts.byRequest;
  } else if (rest.status === "suspended_locked") {
    address = lock?.address ?? "";
    const place = parseAddress(address);
    const round = place.rounds.at(-1)?.round;
    title = texts.lockedTitle;
    if (round === undefined) note = texts.since(took);
    else note = place.rest ? texts.inRound(round, took) : texts.beforeRound(round + 1, took);
  } else {
    title = texts.ended;
    note = texts.endedAt(formats.clock(rest.from), formats.ago(rest.from, now));
  }
  const place = { left: x, width: REST_WIDTH[rest.status] - 4, top, height };
  const content = (
    <>
      <span className="strip-rest-title">
        <StatusShape status={shape} size={14} />
        <b className="ellipsis">{title}</b>
      </span>
      <span className="strip-rest-note" title={note}>
        {note}
      </span>
    </>
  );
  const kind = `strip-rest is-${rest.status} is-${status}`;
  if (rest.status === "over" || !address) {
    return (
      <div className={kind} style={place}>
        {content}
      </div>
    );
  }
  return (
    <button type="button" className={kind} style={place} data-address={address} tabIndex={-1} title={`${title}\n${note}`}>
      {content}
    </button>
  );
}
