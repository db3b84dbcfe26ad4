import { useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { call } from "../api/client";
import { queryClient, useMe } from "../api/queries";
import { LANGUAGES, useLanguage, useMessages, type Language } from "../i18n/messages";
import { useConnection } from "../live/connection";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { useNow } from "../ui/useNow";
import { messages } from "./messages";
import { isDark, useTheme } from "./theme";
import "./top_bar.css";

const PAGES = [
  ["/", "runs"],
  ["/workflows", "workflows"],
  ["/memory", "memory"],
  ["/audit", "audit"],
  ["/settings", "settings"],
] as const;

export function TopBar({ onGoTo }: { onGoTo: () => void }) {
  const texts = useMessages(messages);
  const [location] = useLocation();
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [location]);
  return (
    <header className="top-bar">
      <Button
        kind="quiet"
        icon="menu"
        className="top-menu"
        aria-label={texts.navigation}
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      />
      <Link href="/" className="brand">
        <Logo />
        Roundel
      </Link>
      <nav aria-label={texts.navigation} className={isOpen ? "top-nav open" : "top-nav"}>
        {PAGES.map(([path, name]) => {
          const isCurrent = path === "/" ? location === "/" || location.startsWith("/runs") : location.startsWith(path);
          return (
            <Link key={path} href={path} aria-current={isCurrent ? "page" : undefined}>
              {texts[name]}
            </Link>
          );
        })}
      </nav>
      <button type="button" className="go-to" onClick={onGoTo} aria-keyshortcuts="Control+K">
        <Icon name="search" />
        <span>{texts.goTo}</span>
        <kbd className="key">Ctrl K</kbd>
      </button>
      <ConnectionDot />
      <ThemeButton />
      <Account />
    </header>
  );
}

export function Logo() {
  return (
    <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
      <circle cx="10" cy="10" r="6.500" fill="none" stroke="var(--loop)" strokeWidth="3" />
      <rect x="0.500" y="8.200" width="19" height="3.600" rx="1" fill="var(--text-1)" />
    </svg>
  );
}

function ConnectionDot() {
  const texts = useMessages(messages);
  const connection = useConnection();
  const now = useNow(1000, connection.state === "reconnecting");
  const text = {
    live: texts.live,
    connecting: texts.connecting,
    reconnecting: texts.reconnecting(Math.max(0, Math.round((now - connection.heard) / 1000))),
    "signed-out": texts.signedOut,
  }[connection.state];
  return (
    <span className={`connection connection-${connection.state}`} role="status">
      {text}
    </span>
  );
}

function ThemeButton() {
  const texts = useMessages(messages);
  const choose = useTheme((state) => state.choose);
  useTheme((state) => state.theme);
  return (
    <Button
      kind="quiet"
      icon={isDark() ? "moon" : "sun"}
      aria-label={texts.theme}
      onClick={() => choose(isDark() ? "light" : "dark")}
    />
  );
}

function Account() {
  const texts = useMessages(messages);
  const me = useMe();
  const { language, choose } = useLanguage();
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const name = me.data?.name ?? "";
  const initials = name
    .split(/[\s_-]+/)
    .map((word) => word.slice(0, 1))
    .join("")
    .slice(0, 2)
    .toLowerCase();
  return (
    <div
      className="account"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !isOpen) return;
        event.stopPropagation();
        setOpen(false);
        button.current?.focus();
      }}
    >
      <button
        ref={button}
        type="button"
        className="avatar"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        <span aria-hidden="true">{initials || "–"}</span>
        <span className="hidden-text">{`${texts.account} ${name}`}</span>
      </button>
      {isOpen && (
        <div className="account-menu">
          <p>
            <strong>{name}</strong> <span className="dim">{me.data?.role}</span>
          </p>
          <label>
            {texts.language}
            <select className="input" value={language} onChange={(event) => choose(event.target.value as Language)}>
              {Object.entries(LANGUAGES).map(([code, text]) => (
                <option key={code} value={code}>
                  {text}
                </option>
              ))}
            </select>
          </label>
          <Button
            icon="exit"
            onClick={() => {
              void call("/session", { method: "DELETE" }).finally(() => {
                queryClient.clear();
                location.assign("/");
              });
            }}
          >
            {texts.signOut}
          </Button>
        </div>
      )}
    </div>
  );
}
