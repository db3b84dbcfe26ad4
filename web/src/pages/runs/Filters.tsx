import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useKeys } from "../../app/keys";
import { call } from "../../api/client";
import type { WorkflowList } from "../../api/schema";
import { SINCE, type Since } from "../../i18n/since";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { statusMessages } from "../../ui/Status";
import { ALL, isFiltered, STATUSES, type Filter } from "./filter";
import { messages } from "./messages";

const TYPING_PAUSE = 200;

export function Filters({
  filter,
  names,
  count,
  onChange,
}: {
  filter: Filter;
  /** Workflows that the list shows; those that are saved come in addition. */
  names: readonly string[];
  count: string;
  onChange: (filter: Filter, replaces?: boolean) => void;
}) {
  const texts = useMessages(messages);
  const statuses = useMessages(statusMessages);
  const saved = useQuery({
    queryKey: ["workflows", "names"],
    queryFn: () => call<WorkflowList>("/workflows", { query: { limit: 200 } }),
    staleTime: 60_000,
  });
  const workflows = [...new Set([...names, ...(saved.data?.workflows ?? []).map((one) => one.name), filter.workflow])]
    .filter(Boolean)
    .sort();
  return (
    <div className="runs-filters">
      <Search filter={filter} onChange={onChange} />
      <Choice
        label={texts.status}
        value={filter.status}
        onChange={(status) => onChange({ ...filter, status })}
        choices={[
          ["", texts.any],
          ["needs", texts.statusNeeds],
          ["finished", texts.statusFinished],
          ...Object.values(STATUSES)
            .flat()
            .map((status): [string, string] => [status, statuses[status as keyof typeof statuses].toLowerCase()]),
        ]}
      />
      <Choice
        label={texts.workflow}
        value={filter.workflow}
        onChange={(workflow) => onChange({ ...filter, workflow })}
        choices={[["", texts.any], ...workflows.map((name): [string, string] => [name, name])]}
      />
      <Choice
        label={texts.started}
        value={filter.since}
        onChange={(since) => onChange({ ...filter, since: since as Since | "" })}
        choices={[["", texts.any], ...(Object.keys(SINCE) as Since[]).map((since): [string, string] => [since, texts[`since${since}`]])]}
      />
      {isFiltered(filter) && (
        <Button kind="quiet" onClick={() => onChange(ALL)}>
          {texts.clear}
        </Button>
      )}
      <span className="runs-count dim" role="status">
        {count}
      </span>
    </div>
  );
}

function Choice({
  label,
  value,
  choices,
  onChange,
}: {
  label: string;
  value: string;
  choices: readonly (readonly [value: string, text: string])[];
  onChange: (value: string) => void;
}) {
  const text = choices.find(([one]) => one === value)?.[1] ?? value;
  return (
    <label className={value ? "runs-choice runs-choice-set" : "runs-choice"}>
      <span>{label}</span> <strong aria-hidden="true">{text}</strong>
      <Icon name="down" size={12} />
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {choices.map(([one, shown]) => (
          <option key={one} value={one}>
            {shown}
          </option>
        ))}
      </select>
    </label>
  );
}

function Search({ filter, onChange }: { filter: Filter; onChange: (filter: Filter, replaces?: boolean) => void }) {
  const texts = useMessages(messages);
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(filter.q);
  const sent = useRef(filter.q);
  const isNew = useRef(true);
  const latest = useRef({ filter, onChange });
  latest.current = { filter, onChange };
  useKeys([{ keys: "/", text: texts.focusSearch, action: () => input.current?.select() }]);
  // The URL has changed otherwise: the back button, or "Clear".
  useEffect(() => {
    if (filter.q === sent.current) return;
    sent.current = filter.q;
    setText(filter.q);
  }, [filter.q]);
  useEffect(() => {
    if (text === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = text;
      // One entry of the history for one search, and not for each letter.
      latest.current.onChange({ ...latest.current.filter, q: text }, !isNew.current);
      isNew.current = false;
    }, TYPING_PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div className="runs-search">
      <Icon name="search" />
      <input
        ref={input}
        type="search"
        aria-label={texts.search}
        aria-keyshortcuts="/"
        placeholder={texts.search}
        value={text}
        onFocus={() => {
          isNew.current = true;
        }}
        onChange={(event) => setText(event.target.value)}
      />
      <kbd className="key" aria-hidden="true">
        /
      </kbd>
    </div>
  );
}
