// Statuses differ by shape and by colour: arc, bubble, padlock, octagon, disc, bars, square.
import { catalogue, useMessages } from "../i18n/messages";
import type { RunStatus } from "../api/statuses";
import "./status.css";

export const statusMessages = catalogue(
  {
    running: "Running",
    waiting: "Waiting",
    approval: "Approval",
    paused: "Paused",
    suspended_locked: "Locked",
    completed: "Completed",
    failed: "Failed",
    stopped: "Stopped",
  },
  {
    running: "运行中",
    waiting: "等待中",
    approval: "待批准",
    paused: "已暂停",
    suspended_locked: "已锁定",
    completed: "已完成",
    failed: "失败",
    stopped: "已停止",
  },
);

export type ShownStatus = RunStatus | "approval";

export function StatusShape({ status, size = 16 }: { status: ShownStatus; size?: number }) {
  return (
    <svg className={`shape shape-${status}`} width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      {shape(status)}
    </svg>
  );
}

function shape(status: ShownStatus) {
  switch (status) {
    case "running":
      return (
        <>
          <circle cx="8" cy="8" r="5.500" fill="none" stroke="currentColor" strokeWidth="2.500" opacity=".3" />
          <path d="M8 2.500a5.500 5.500 0 0 1 4.800 8.200" fill="none" stroke="currentColor" strokeWidth="2.500" />
        </>
      );
    case "waiting":
    case "approval":
      return (
        <>
          <path d="M2 3.500A1.500 1.500 0 0 1 3.500 2h9A1.500 1.500 0 0 1 14 3.500v6a1.500 1.500 0 0 1-1.500 1.500H8l-3.500 3v-3h-1A1.500 1.500 0 0 1 2 9.500v-6Z" fill="currentColor" />
          <path d="M5 6.500h.100M8 6.500h.100M11 6.500h.100" stroke="var(--surface)" strokeWidth="1.600" strokeLinecap="round" />
        </>
      );
    case "suspended_locked":
      return (
        <>
          <path d="M5 7V5a3 3 0 0 1 6 0v2" fill="none" stroke="currentColor" strokeWidth="1.800" />
          <rect x="3" y="7" width="10" height="7" rx="1.500" fill="currentColor" />
        </>
      );
    case "failed":
      return (
        <>
          <path d="M5.500 2h5L14 5.500v5L10.500 14h-5L2 10.500v-5L5.500 2Z" fill="none" stroke="currentColor" strokeWidth="1.500" />
          <path d="m6 6 4 4M10 6l-4 4" stroke="currentColor" strokeWidth="1.500" strokeLinecap="round" />
        </>
      );
    case "completed":
      return (
        <>
          <circle cx="8" cy="8" r="6.500" fill="currentColor" />
          <path d="m5.200 8.300 2 2 3.600-4.300" fill="none" stroke="var(--surface)" strokeWidth="1.700" strokeLinecap="round" />
        </>
      );
    case "paused":
      return <path d="M5.500 3v10M10.500 3v10" stroke="currentColor" strokeWidth="2.200" strokeLinecap="round" />;
    case "stopped":
      return <rect x="3" y="3" width="10" height="10" rx="1" fill="none" stroke="currentColor" strokeWidth="1.600" />;
  }
}

/** The status as a shape and a word. */
export function Status({ status, isPill = false }: { status: ShownStatus; isPill?: boolean }) {
  const texts = useMessages(statusMessages);
  return (
    <span className={`status status-${status} ${isPill ? "status-pill" : ""}`}>
      <StatusShape status={status} />
      {texts[status]}
    </span>
  );
}
