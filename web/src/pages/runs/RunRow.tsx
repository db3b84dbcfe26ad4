// One run of the list. Cells change in place; nothing here moves.
import { memo } from "react";
import { Link, useLocation } from "wouter";
import type { RunView } from "../../api/schema";
import { useFormats, type Formats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { GuardBar, guardTone } from "../../ui/GuardBar";
import { Icon } from "../../ui/Icon";
import { RoundDots } from "../../ui/RoundDots";
import { Sparkline } from "../../ui/Sparkline";
import { Status } from "../../ui/Status";
import { useClock } from "./clock";
import {
  actionOf,
  callText,
  circlesOf,
  costOf,
  evidenceOf,
  nearestGuard,
  outcomeOf,
  shownStatus,
  workSeconds,
  type Action,
} from "./facts";
import { groupOf } from "./list";
import { Marked } from "./Marked";
import { kindText, messages } from "./messages";

type Texts = ReturnType<typeof useMessages<(typeof messages)["en"]>>;

const LOOKS: Record<Action, "locked" | "primary" | "plain"> = {
  reviewLock: "locked",
  answer: "primary",
  reviewCall: "primary",
  debug: "plain",
  retry: "plain",
};

export const RunRow = memo(function RunRow({
  run,
  isTall,
  onFocus,
}: {
  run: RunView;
  /** Whether it has room for the line that says what it needs. */
  isTall: boolean;
  onFocus: (id: string) => void;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const [, navigate] = useLocation();
  const status = shownStatus(run);
  const action = actionOf(run);
  const path = `/runs/${run.id}`;
  return (
    <div
      className={`runs-row runs-row-${status} ${isTall ? "runs-row-tall" : ""}`}
      role="row"
      data-run={run.id}
      onFocus={() => onFocus(run.id)}
      onClick={(event) => {
        // The whole row leads to the run, unless somebody marks text in it, or uses a link of it.
        if ((event.target as HTMLElement).closest("a, button") || getSelection()?.toString()) return;
        navigate(path);
      }}
    >
      <div className="runs-status" role="cell">
        <Status status={status} />
      </div>
      <div className="runs-workflow" role="cell">
        <div className="ellipsis">
          <Link href={path} className="runs-name">
            {run.workflow || run.id}
          </Link>
          <code className="runs-id">{run.id}</code>
        </div>
        <div className="runs-input ellipsis" title={run.input}>
          {run.input}
        </div>
      </div>
      <div className="runs-loop" role="cell">
        <LoopCell run={run} texts={texts} />
      </div>
      <div className="runs-score" role="cell">
        <ScoreCell run={run} texts={texts} formats={formats} />
      </div>
      <div className="runs-guard" role="cell">
        <GuardCell run={run} texts={texts} formats={formats} />
      </div>
      <div className="runs-cost" role="cell">
        {formats.cost(costOf(run))}
      </div>
      <div className="runs-updated" role="cell">
        <Updated run={run} formats={formats} />
      </div>
      <div className="runs-end" role="cell">
        {action === null ? (
          <Duration run={run} formats={formats} />
        ) : (
          <Link
            href={path}
            className={`button button-${LOOKS[action]}`}
            aria-label={texts.actionFor(texts[action], `${run.workflow} ${run.id}`)}
          >
            {action === "reviewLock" && <Icon name="lock" />}
            {texts[action]}
          </Link>
        )}
      </div>
      {isTall && (
        <div className="runs-reason ellipsis" role="cell">
          <Marked text={reasonText(run, texts, formats)} />
        </div>
      )}
    </div>
  );
});

function LoopCell({ run, texts }: { run: RunView; texts: Texts }) {
  const loop = run.loops.at(-1);
  if (groupOf(run) === "finished") {
    const outcome = outcomeOf(run.results);
    const parts = [
      outcome && texts.rounds(outcome.rounds) + (outcome.inside ? texts.inside(outcome.inside) : ""),
      run.status === "failed" ? run.error : outcome?.reason,
    ].filter(Boolean);
    const text = parts.join(" · ");
    return (
      <div className="runs-outcome ellipsis" title={text}>
        {text || "–"}
      </div>
    );
  }
  const node = run.active[0] ?? run.question?.node_id ?? "";
  if (loop === undefined) return <div className="runs-outcome ellipsis">{node || "–"}</div>;
  const outer = run.loops.length > 1 ? run.loops.at(-2) : undefined;
  const where = outer !== undefined ? texts.inRound(outer.address) : loop.by ? texts.byGuard(loop.by) : "";
  return (
    <>
      <div className="ellipsis">
        {texts.roundBefore}
        <strong>{loop.round}</strong>
        {texts.roundAfter(loop.limit ?? null)} · {node || loop.loop}
      </div>
      <div className="runs-rounds">
        <RoundDots round={loop.round} limit={loop.limit ?? null} />
        <span className="ellipsis">{where}</span>
      </div>
    </>
  );
}

function ScoreCell({ run, texts, formats }: { run: RunView; texts: Texts; formats: Formats }) {
  const last = run.scores.at(-1) ?? run.score;
  if (last === undefined || last === null) return <span className="dim">–</span>;
  const text = formats.decimal(last, 2);
  const threshold = run.threshold ?? null;
  return (
    <>
      <Sparkline
        values={run.scores.length ? run.scores : [last]}
        threshold={threshold}
        label={texts.scores(run.scores.length, text, threshold === null ? "" : formats.decimal(threshold))}
      />
      <span>{text}</span>
    </>
  );
}

function GuardCell({ run, texts, formats }: { run: RunView; texts: Texts; formats: Formats }) {
  // Only a deadline moves by itself: everything else is drawn again when the run changes.
  const now = useClock((time) => (run.deadline && run.status === "waiting" ? time : 0));
  const guard = nearestGuard(run, now);
  if (guard === null) return <span className="dim">–</span>;
  const isOver = groupOf(run) === "finished";
  return (
    <GuardBar share={guard.share} tone={guard.isLocked ? "locked" : isOver ? "calm" : guardTone(guard.share)}>
      {guardText(guard.kind, guard.used, guard.limit, texts, formats)}
    </GuardBar>
  );
}

function guardText(kind: string, used: number, limit: number, texts: Texts, formats: Formats): string {
  switch (kind) {
    case "novelty":
      return texts.novelty(used.toFixed(2), limit.toFixed(2));
    case "deadline":
      return used > 0 ? texts.deadline(formats.duration(used < 60 ? Math.ceil(used) : Math.round(used / 60) * 60)) : texts.deadlineOver;
    case "cost_usd":
      return `${kindText(texts, kind)} $${used.toFixed(2)} / $${limit.toFixed(2)}`;
    case "seconds":
      return `${kindText(texts, kind)} ${formats.duration(used)} / ${formats.duration(limit)}`;
    default:
      return `${kindText(texts, kind)} ${formats.number(used)} / ${formats.number(limit)}`;
  }
}

function Updated({ run, formats }: { run: RunView; formats: Formats }) {
  const isOver = groupOf(run) === "finished";
  const text = useClock((now) => (isOver ? formats.short(run.updated, now) : formats.ago(run.updated, now)));
  return (
    <time dateTime={run.updated} title={formats.full(run.updated)}>
      {text}
    </time>
  );
}

function Duration({ run, formats }: { run: RunView; formats: Formats }) {
  // Whole seconds while it runs: tenths would flicker.
  const text = useClock((now) => {
    const seconds = workSeconds(run, now);
    return run.status === "running" ? formats.duration(Math.round(seconds)).replace(".0", "") : formats.duration(seconds);
  });
  return <span>{text}</span>;
}

/** Why a run needs somebody, in one line. */
function reasonText(run: RunView, texts: Texts, formats: Formats): string {
  switch (shownStatus(run)) {
    case "suspended_locked":
      return lockText(run, texts, formats);
    case "approval": {
      const tool = run.question?.tool;
      return texts.wantsToCall(run.question?.node_id ?? "", callText(tool?.name ?? "", tool?.arguments));
    }
    case "waiting":
      if (run.question) return texts.asks(run.question.node_id, run.question.prompt);
      return texts.waitsAt(run.questions[0] ?? "");
    case "paused": {
      const pause = (run.pause ?? {}) as { reason?: string; address?: string; breakpoint?: string };
      if (pause.breakpoint) return texts.pausedAtBreakpoint(pause.address ?? "", pause.breakpoint);
      if (pause.address) return texts.pausedAt(pause.address);
      return pause.reason ? texts.pausedBy(pause.reason) : texts.pausedPlain;
    }
    default:
      // It has begun to run again, and moves when nobody points at it.
      return "";
  }
}

function lockText(run: RunView, texts: Texts, formats: Formats): string {
  const lock = run.lock ?? {};
  const evidence = evidenceOf(run);
  const circles = circlesOf(run);
  if (circles !== null) return texts.circles(circles.count, circles.rounds.map((round) => `\`${round}\``).join(texts.and));
  const [what, limit] = [String(lock["what"] ?? ""), Number(lock["limit"] ?? NaN)];
  switch (what) {
    case "manual":
      return texts.lockedBy(String(evidence["by"] ?? ""), String(evidence["reason"] ?? ""));
    case "token_surge":
      return texts.surge(formats.number(Number(evidence["tokens"] ?? 0)), formats.decimal(Number(evidence["factor"] ?? limit)));
    case "crashes":
      return texts.crashes(limit);
    case "timeout":
      return texts.timeout(formats.duration(limit));
    default: {
      const shown = what === "cost_usd" ? `$${limit}` : what === "seconds" ? formats.duration(limit) : formats.number(limit);
      if (Number.isFinite(limit)) return texts.lockedAt(kindText(texts, what), shown, String(lock["address"] ?? ""));
      return String(lock["text"] ?? "");
    }
  }
}
