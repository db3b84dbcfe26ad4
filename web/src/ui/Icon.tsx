// All icons, drawn on a grid of 16 with lines of 1.5. They take the colour of the text.
import type { ReactNode } from "react";

const PATHS = {
  agent: <path d="M8 2.2c.5 3.2 2.6 5.3 5.8 5.8-3.2.5-5.3 2.6-5.8 5.8-.5-3.2-2.6-5.3-5.8-5.8 3.2-.5 5.3-2.6 5.8-5.8Z" />,
  loop: (
    <>
      <path d="M13 8a5 5 0 1 1-1.6-3.7" />
      <path d="M11.6 1.8v2.8H8.8M8 5.5V8l1.6 1.2" />
    </>
  ),
  human: (
    <>
      <circle cx="8" cy="5.2" r="2.6" />
      <path d="M3 13.6c.4-2.8 2.4-4.2 5-4.2s4.600 1.400 5 4.2" />
    </>
  ),
  code: <path d="m5.500 4.800-3.200 3.200 3.200 3.200M10.500 4.800l3.200 3.200-3.200 3.200" />,
  flow: <path d="M2.500 8h10.500M9.300 4.300 13 8l-3.700 3.700" />,
  subgraph: (
    <>
      <rect x="2.500" y="2.500" width="5" height="5" rx="1" />
      <rect x="8.500" y="8.500" width="5" height="5" rx="1" />
      <path d="M5 7.500v3.500h3.500" />
    </>
  ),
  tool: <path d="M10.200 2.600a3.300 3.300 0 0 0-3 4.500L2.600 11.700a1.200 1.200 0 0 0 1.700 1.700l4.600-4.600a3.300 3.300 0 0 0 4.500-3.900l-2 2-2-.500-.500-2 2-2a3.300 3.300 0 0 0-.700.200Z" />,
  memory: <path d="M3 4.500C3 3.400 5.200 2.500 8 2.500s5 .900 5 2-2.200 2-5 2-5-.900-5-2Zm0 0v7c0 1.100 2.200 2 5 2s5-.900 5-2v-7M3 8c0 1.100 2.200 2 5 2s5-.900 5-2" />,
  search: (
    <>
      <circle cx="7" cy="7" r="4.500" />
      <path d="m10.500 10.500 3 3" />
    </>
  ),
  plus: <path d="M8 3v10M3 8h10" />,
  minus: <path d="M3 8h10" />,
  close: <path d="m4 4 8 8M12 4l-8 8" />,
  check: <path d="m3.500 8.500 3 3 6-7" />,
  down: <path d="m4 6 4 4 4-4" />,
  up: <path d="m4 10 4-4 4 4" />,
  left: <path d="m10 4-4 4 4 4" />,
  right: <path d="m6 4 4 4-4 4" />,
  copy: (
    <>
      <rect x="5.500" y="5.500" width="8" height="8" rx="1.500" />
      <path d="M10.500 5.500V4A1.500 1.500 0 0 0 9 2.500H4A1.500 1.500 0 0 0 2.500 4v5A1.500 1.500 0 0 0 4 10.500h1.500" />
    </>
  ),
  pause: <path d="M5.500 3v10M10.500 3v10" />,
  play: <path d="M4.500 3v10l8-5-8-5Z" />,
  stop: <rect x="3.500" y="3.500" width="9" height="9" rx="1" />,
  fork: (
    <>
      <circle cx="4" cy="3.500" r="1.500" />
      <circle cx="12" cy="3.500" r="1.500" />
      <circle cx="4" cy="12.500" r="1.500" />
      <path d="M4 5v6M12 5c0 3-8 2.500-8 5" />
    </>
  ),
  compare: <path d="M2.500 3h11v10h-11ZM8 3v10" />,
  retry: <path d="M3 8a5 5 0 1 0 1.600-3.700L3 5.800M3 2.500v3.300h3.300" />,
  bug: (
    <>
      <rect x="5" y="5" width="6" height="8" rx="3" />
      <path d="M6 5a2 2 0 1 1 4 0M5 8H2.500M13.500 8H11M5 11l-2 1.500M11 11l2 1.500M5 6.500l-2-1.500M11 6.500l2-1.500" />
    </>
  ),
  step: <path d="m5 4 4 4-4 4M12 4v8" />,
  edit: <path d="m3 13 .600-2.800 7.400-7.400a1.300 1.300 0 0 1 1.900 0l.300.300a1.300 1.300 0 0 1 0 1.900l-7.400 7.400L3 13Z" />,
  note: <path d="M3 3.500A1 1 0 0 1 4 2.500h8a1 1 0 0 1 1 1v5.500L9 13.500H4a1 1 0 0 1-1-1v-9ZM13 9H9v4.500" />,
  raise: <path d="M8 13V3.500M4 7l4-4 4 4" />,
  exit: <path d="M6 3H3.500v10H6M6.500 8h7M10.500 5l3 3-3 3" />,
  shield: <path d="M8 2 3 3.800v3.700c0 3.200 2 5.300 5 6.500 3-1.200 5-3.300 5-6.500V3.800L8 2ZM5.800 8l1.600 1.600 2.800-3.200" />,
  star: <path d="m8 2.300 1.700 3.600 3.900.500-2.900 2.700.800 3.900L8 11.100l-3.500 1.900.800-3.900L2.400 6.400l3.900-.500L8 2.300Z" />,
  sun: (
    <>
      <circle cx="8" cy="8" r="2.800" />
      <path d="M8 1.500v1.600M8 12.900v1.600M1.500 8h1.600M12.900 8h1.600M3.400 3.400l1.100 1.100M11.500 11.500l1.100 1.100M12.600 3.400l-1.100 1.100M4.500 11.500l-1.100 1.100" />
    </>
  ),
  moon: <path d="M13 9.600A5.500 5.500 0 0 1 6.400 3 5.500 5.500 0 1 0 13 9.600Z" />,
  more: (
    <>
      <circle cx="3.500" cy="8" r=".7" />
      <circle cx="8" cy="8" r=".7" />
      <circle cx="12.500" cy="8" r=".7" />
    </>
  ),
  list: <path d="M6 4h7.500M6 8h7.500M6 12h7.500M2.500 4h.500M2.500 8h.500M2.500 12h.500" />,
  fit: <path d="M2.500 6V3.500A1 1 0 0 1 3.500 2.500H6M10 2.500h2.500a1 1 0 0 1 1 1V6M13.500 10v2.500a1 1 0 0 1-1 1H10M6 13.500H3.500a1 1 0 0 1-1-1V10" />,
  warning: <path d="M8 2.500 14 13H2L8 2.500ZM8 6.500v3M8 11.300v.200" />,
  info: (
    <>
      <circle cx="8" cy="8" r="5.800" />
      <path d="M8 7.300v3.700M8 5v.200" />
    </>
  ),
  menu: <path d="M2.500 4h11M2.500 8h11M2.500 12h11" />,
  link: <path d="M6.500 9.500 9.500 6.500M7 4.500l1.300-1.300a3 3 0 0 1 4.300 4.300L11.300 8.800M9 11.500l-1.300 1.300a3 3 0 0 1-4.300-4.300L4.700 7.200" />,
  download: <path d="M8 2.500v8M4.500 7.500 8 11l3.500-3.500M3 13.500h10" />,
  trash: <path d="M3 4.500h10M6.500 4.500v-2h3v2M4.500 4.500l.500 9h6l.500-9" />,
  key: (
    <>
      <circle cx="5" cy="11" r="2.500" />
      <path d="m6.800 9.200 6-6M10.500 5.500l2 2M12.500 3.500l1 1" />
    </>
  ),
  lock: (
    <>
      <rect x="3" y="7" width="10" height="7" rx="1.500" />
      <path d="M5 7V5a3 3 0 0 1 6 0v2" />
    </>
  ),
  unlock: (
    <>
      <rect x="3" y="7" width="10" height="7" rx="1.500" />
      <path d="M5 7V5a3 3 0 0 1 5.800-1" />
    </>
  ),
  undo: <path d="M5.500 3 2.500 6l3 3M2.500 6h7a3.500 3.500 0 0 1 0 7H6.500" />,
  redo: <path d="m10.500 3 3 3-3 3M13.500 6h-7a3.500 3.500 0 0 0 0 7h3" />,
  changes: <path d="M5 2.500v5M2.500 5h5M8.500 11h5M12.500 3.500l-9 9" />,
  replay: <path d="M5 3.500v9l7-4.500-7-4.500Z" />,
  data: <path d="M6 3C4 3 5.500 7.500 3 8c2.500.500 1 5 3 5M10 3c2 0 .500 4.500 3 5-2.500.500-1 5-3 5" />,
  debate: <path d="M2.500 3.500h7v5h-4l-2 2v-2h-1v-5ZM11.500 6h2v5.500h-1v2l-2-2h-3.500V10" />,
  vote: <path d="M2.500 9.500h2l-1 4h9l-1-4h2M5.500 9.500h5M6 9.500V4l4-1.500v7" />,
  text: <path d="M4 5V3.500h8V5M8 3.500v9M6.500 12.500h3" />,
  timer: (
    <>
      <circle cx="8" cy="8" r="5.500" />
      <path d="M8 5v3.200l2 1.300" />
    </>
  ),
  alignLeft: <path d="M3 2.500v11M5.500 4.500h7v2.500h-7ZM5.500 9.500h4.500v2.500H5.500Z" />,
  alignCentre: <path d="M8 2.500v2M8 7v2.500M8 12v1.500M4 4.500h8V7H4ZM5.500 9.500h5v2.500h-5Z" />,
  alignTop: <path d="M2.500 3h11M4.500 5.500H7v7H4.500ZM9.500 5.500H12V10H9.500Z" />,
  distribute: <path d="M2.500 2.500h11M2.500 13.500h11M4.500 6h7v4h-7Z" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16, filled = false }: { name: IconName; size?: number; filled?: boolean }) {
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill={filled ? "currentColor" : "none"}
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {PATHS[name]}
    </svg>
  );
}

/** The icon and the colour of each type of node. */
export function nodeLook(type: string): { icon: IconName; color: string } {
  switch (type) {
    case "agent":
      return { icon: "agent", color: "var(--agent)" };
    case "debate":
      return { icon: "debate", color: "var(--agent)" };
    case "vote":
      return { icon: "vote", color: "var(--agent)" };
    case "literal":
      return { icon: "text", color: "var(--flow)" };
    case "human":
      return { icon: "human", color: "var(--people)" };
    case "loop":
    case "loop_counter":
    case "loop_agent":
      return { icon: "loop", color: "var(--loop)" };
    case "loop_timer":
      return { icon: "timer", color: "var(--loop)" };
    case "python":
      return { icon: "code", color: "var(--python)" };
    case "subgraph":
      return { icon: "subgraph", color: "var(--subgraph)" };
    case "memory":
      return { icon: "memory", color: "var(--subgraph)" };
    default:
      return { icon: "flow", color: "var(--flow)" };
  }
}
