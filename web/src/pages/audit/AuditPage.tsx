// Who did what.
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Link } from "wouter";
import { call } from "../../api/client";
import { useMe } from "../../api/queries";
import type { AuditEntry, AuditList } from "../../api/schema";
import { useFormats } from "../../i18n/format";
import { SINCE, type Since } from "../../i18n/since";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { download } from "../../ui/download";
import { SelectField, TextField } from "../../ui/Field";
import { Failure, Loading } from "../../ui/State";
import { useSettled } from "../../ui/useSettled";
import { may } from "../settings/roles";
import "../settings/plain.css";
import { detailsText, matches, targetPath, whoDid } from "./entries";
import { EVERYTHING, isFiltered, queryOf, type AuditFilter } from "./filter";
import { messages } from "./messages";

export default function AuditPage() {
  const texts = useMessages(messages);
  const me = useMe();
  if (me.data === undefined) return <Loading />;
  if (may(me.data.role, "admin")) return <Entries />;
  return (
    <>
      <header className="plain-head">
        <div className="plain-title">
          <h1>{texts.audit}</h1>
        </div>
      </header>
      <p className="plain-empty">{texts.forbidden}</p>
    </>
  );
}

function save(entries: readonly AuditEntry[]): void {
  const blob = new Blob([`${JSON.stringify(entries, null, 2)}\n`], { type: "application/json" });
  download(blob, "audit.json");
}

function Entries() {
  const texts = useMessages(messages);
  const formats = useFormats();
  const [query, setQuery] = useState("");
  const [filter, setFilter] = useState(EVERYTHING);
  const change = (some: Partial<AuditFilter>) => setFilter((before) => ({ ...before, ...some }));
  const asked = useSettled(filter);
  const pages = useInfiniteQuery({
    queryKey: ["audit", asked],
    queryFn: ({ pageParam }) =>
      call<AuditList>("/audit", { query: { ...queryOf(asked, Date.now()), cursor: pageParam, limit: 100 } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
  });
  const all = pages.data?.pages.flatMap((page) => page.entries) ?? [];
  const shown = all.filter((entry) => matches(entry, query.trim()));
  // A filter leaves only one name and one action: the others stay to be chosen.
  const known = useRef({ names: new Set<string>(), actions: new Set<string>() }).current;
  for (const entry of all) {
    known.actions.add(entry.action);
    const name = whoDid(entry)?.name;
    if (name) known.names.add(name);
  }
  const choices = (values: ReadonlySet<string>) => [
    { value: "", text: texts.any },
    ...[...values].sort().map((value) => ({ value, text: value })),
  ];
  const times = Object.keys(SINCE) as Since[];
  return (
    <>
      <header className="plain-head">
        <div className="plain-title">
          <h1>{texts.audit}</h1>
          <span className="dim">{texts.help}</span>
          <span className="plain-spread" />
          <Button icon="retry" isBusy={pages.isRefetching} onClick={() => void pages.refetch()}>
            {texts.refresh}
          </Button>
          <Button icon="download" disabled={shown.length === 0} onClick={() => save(shown)}>
            {texts.export}
          </Button>
        </div>
        <div className="plain-tools">
          <TextField label={texts.search} type="search" placeholder={texts.searchHint} value={query} onChange={setQuery} />
          <SelectField label={texts.who} value={filter.by} onChange={(by) => change({ by })} choices={choices(known.names)} />
          <SelectField
            label={texts.action}
            value={filter.action}
            onChange={(action) => change({ action })}
            choices={choices(known.actions)}
          />
          <TextField
            label={texts.target}
            type="search"
            placeholder={texts.targetHint}
            value={filter.subject}
            onChange={(subject) => change({ subject })}
          />
          <SelectField
            label={texts.when}
            value={filter.since}
            onChange={(since) => change({ since: since as Since | "" })}
            choices={[{ value: "", text: texts.any }, ...times.map((value) => ({ value, text: texts[`since${value}`] }))]}
          />
          <span className="plain-count" role="status">
            {texts.shown(formats.number(shown.length), formats.number(all.length))}
          </span>
        </div>
      </header>
      {pages.error && <Failure error={pages.error} onRetry={() => void pages.refetch()} />}
      {pages.isPending && <Loading lines={8} />}
      {shown.length > 0 && (
        <table className="plain-table" aria-label={texts.audit}>
          <thead>
            <tr>
              <th scope="col">{texts.when}</th>
              <th scope="col">{texts.who}</th>
              <th scope="col">{texts.what}</th>
              <th scope="col">{texts.target}</th>
              <th scope="col">{texts.details}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((entry) => (
              <Row key={entry.number} entry={entry} />
            ))}
          </tbody>
        </table>
      )}
      {pages.isSuccess && shown.length === 0 && <p className="plain-empty">{all.length > 0 || isFiltered(asked) ? texts.nothing : texts.empty}</p>}
      <div className="plain-more">
        {pages.hasNextPage ? (
          <Button isBusy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            {texts.more}
          </Button>
        ) : (
          all.length > 0 && <span className="dim small">{texts.oldestShown}</span>
        )}
      </div>
    </>
  );
}

function Row({ entry }: { entry: AuditEntry }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const who = whoDid(entry);
  const path = targetPath(entry);
  const isId = entry.action.startsWith("run.") && entry.action !== "run.start";
  const target = isId ? <code>{entry.subject}</code> : entry.subject;
  return (
    <tr>
      <td data-label={texts.when} className="plain-when">
        {formats.full(entry.time)}
      </td>
      <td data-label={texts.who}>
        {who !== null ? (
          <>
            <strong>{who.name}</strong> <span className="dim">{who.role}</span>
          </>
        ) : (
          <span className="dim">{entry.details.by === "command line" ? texts.commandLine : texts.nobody}</span>
        )}
      </td>
      <td data-label={texts.what}>
        <code>{entry.action}</code>
      </td>
      <td data-label={texts.target}>
        {path ? (
          <Link className="plain-link" href={path}>
            {target}
          </Link>
        ) : (
          target
        )}
      </td>
      <td data-label={texts.details} className="dim">
        {detailsText(entry.details)}
      </td>
    </tr>
  );
}
