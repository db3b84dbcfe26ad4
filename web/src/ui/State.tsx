// What a page shows when it has nothing to show: it loads, it is empty, it failed.
import { useEffect, useState, type ReactNode } from "react";
import { ApiError } from "../api/client";
import { catalogue, useMessages } from "../i18n/messages";
import { Button } from "./Button";
import "./state.css";

const messages = catalogue(
  {
    loading: "Loading",
    again: "Try again",
    unreachable: "The server cannot be reached. It is started with `roundel serve`.",
    missing: "Not found, or you do not have access.",
  },
  {
    loading: "正在加载",
    again: "重试",
    unreachable: "无法连接服务器。请用 `roundel serve` 启动它。",
    missing: "这里没有此内容，或者您无权查看。",
  },
);

/** Grey lines in the real frame, only after 150 ms: most answers are faster. */
export function Loading({ lines = 4 }: { lines?: number }) {
  const texts = useMessages(messages);
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="loading" role="status">
      <span className="hidden-text">{texts.loading}</span>
      {isSlow && Array.from({ length: lines }, (_, index) => <div key={index} className="loading-line" />)}
    </div>
  );
}

export function Failure({ error, onRetry, command }: { error: Error; onRetry?: () => void; command?: string }) {
  const texts = useMessages(messages);
  const status = error instanceof ApiError ? error.status : -1;
  const text = status === 0 ? texts.unreachable : status === 404 ? texts.missing : error.message;
  return (
    <div className="failure" role="alert">
      <p>{text}</p>
      {command && <code>{command}</code>}
      {onRetry && (
        <Button icon="retry" onClick={onRetry}>
          {texts.again}
        </Button>
      )}
    </div>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <div className="empty">{children}</div>;
}
