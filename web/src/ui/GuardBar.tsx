// How near a limit is: its text, and a bar that is full when the limit is reached.
import type { ReactNode } from "react";
import "./guard_bar.css";

export type GuardTone = "calm" | "near" | "locked";

/** The colour follows the distance, so that a glance down a list finds the runs that come close. */
export function guardTone(share: number): GuardTone {
  return share >= 0.6 ? "near" : "calm";
}

export function GuardBar({
  share,
  tone = guardTone(share),
  children,
}: {
  /** From 0 to 1. */
  share: number;
  tone?: GuardTone;
  children: ReactNode;
}) {
  const width = Math.max(0, Math.min(1, share)) * 100;
  return (
    <div className="guard-bar">
      <div className="guard-bar-text ellipsis">{children}</div>
      <div className="guard-bar-track" aria-hidden="true">
        <div className={`guard-bar-fill guard-bar-${tone}`} style={{ width: `${width}%` }} />
      </div>
    </div>
  );
}
