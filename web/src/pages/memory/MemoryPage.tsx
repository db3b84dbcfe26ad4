// What the runs of a group remember.
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { call, withQuery } from "../../api/client";
import { queryClient, useMe } from "../../api/queries";
import type { Deleted, MemoryList, MemoryMatches, MemoryView, PromoteBody, QuarantinedView, QuarantinePage, RunList, WorkflowList } from "../../api/schema";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { Button, Segmented } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { SelectField, TextArea, TextField } from "../../ui/Field";
import { Failure, Loading } from "../../ui/State";
import { toast, toastError } from "../../ui/toasts";
import { Confirm } from "../settings/Confirm";
import { FormDialog } from "../settings/FormDialog";
import "../settings/plain.css";
import { may } from "../settings/roles";
import "./memory.css";
import { messages } from "./messages";

/** How the API writes the group without a name. */
const NO_NAME = "~";
const KINDS = ["working", "long_term"];

interface Shown {
  group: string;
  kind: string;
  run: string;
  view: "entries" | "quarantine";
}

/** What is shown is in the URL, so that links lead to it. */
function useShown(): [Shown, (change: Partial<Shown>) => void] {
  const search = useSearch();
  const [, navigate] = useLocation();
  const query = new URLSearchParams(search);
  const shown: Shown = {
    group: query.get("group") ?? NO_NAME,
    kind: query.get("kind") ?? "",
    run: query.get("run") ?? "",
    view: query.get("view") === "quarantine" ? "quarantine" : "entries",
  };
  return [
    shown,
    (change) => {
      const next = { ...shown, ...change };
      navigate(withQuery("/memory", { ...next, view: next.view === "entries" ? "" : next.view }), { replace: true });
    },
  ];
}

/** The groups that are known: there is no list of them, but runs and workflows have one. */
function useGroups(own: string[] | null | undefined): string[] {
  const { data } = useQuery({
    queryKey: ["groups"],
    queryFn: async () => {
      const [runs, workflows] = await Promise.all([
        call<RunList>("/runs", { query: { limit: 200 } }),
        call<WorkflowList>("/workflows", { query: { limit: 200 } }),
      ]);
      return [...runs.runs, ...workflows.workflows].map((one) => one.group);
    },
    enabled: own === null,
  });
  return [...new Set(own ?? ["", ...(data ?? [])])].map((group) => group || NO_NAME).sort();
}

export default function MemoryPage() {
  const texts = useMessages(messages);
  const me = useMe();
  const [shown, show] = useShown();
  const [query, setQuery] = useState("");
  const [isAdding, setAdding] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const formats = useFormats();
  const role = me.data?.role;
  const name = shown.group === NO_NAME ? texts.noName : shown.group;
  const path = `/memory/${encodeURIComponent(shown.group)}`;
  return (
    <>
      <header className="plain-head">
        <div className="plain-title">
          <h1>{texts.memory}</h1>
          <span className="dim">{texts.help}</span>
          <span className="plain-spread" />
          {may(role, "operator") && (
            <Button icon="plus" onClick={() => setAdding(true)}>
              {texts.addText}
            </Button>
          )}
          {may(role, "author") && (
            <Button kind="danger" icon="trash" onClick={() => setDeleting(true)}>
              {texts.deleteAll}
            </Button>
          )}
        </div>
        <div className="plain-tools">
          <GroupField key={shown.group} group={shown.group} own={me.data?.groups} onChange={(group) => show({ group, run: "" })} />
          <Segmented
            label={texts.view}
            value={shown.view}
            onChange={(view) => show({ view })}
            choices={[
              { value: "entries", text: texts.entries },
              { value: "quarantine", text: texts.quarantine },
            ]}
          />
          {shown.view === "entries" && (
            <>
              <SelectField
                label={texts.kind}
                value={shown.kind}
                onChange={(kind) => show({ kind })}
                choices={[
                  { value: "", text: texts.anyKind },
                  ...[...new Set([...KINDS, ...(shown.kind ? [shown.kind] : [])])].map((value) => ({ value, text: value })),
                ]}
              />
              <TextField label={texts.search} type="search" placeholder={texts.searchHint} value={query} onChange={setQuery} />
            </>
          )}
        </div>
        {role === "viewer" && <p className="dim small">{texts.viewerOnly}</p>}
      </header>
      {shown.view === "quarantine" ? (
        <Quarantine shown={shown} show={show} mayPromote={may(role, "operator")} path={path} />
      ) : (
        <Entries key={shown.group} path={path} kind={shown.kind} query={query.trim()} mayChange={may(role, "operator")} />
      )}
      {isAdding && <AddText path={path} name={name} onClose={() => setAdding(false)} />}
      {isDeleting && (
        <Confirm
          title={texts.deleteAllTitle}
          action={texts.deleteAll}
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            const { deleted } = await call<Deleted>(path, { method: "DELETE" });
            toast(texts.deletedAll(formats.number(deleted)));
            await refresh();
          }}
        >
          <p>{texts.deleteAllText(name)}</p>
        </Confirm>
      )}
    </>
  );
}

function refresh() {
  return queryClient.invalidateQueries({ queryKey: ["memory"] });
}

function GroupField({ group, own, onChange }: { group: string; own: string[] | null | undefined; onChange: (group: string) => void }) {
  const texts = useMessages(messages);
  const groups = useGroups(own);
  const listId = useId();
  const id = useId();
  const [text, setText] = useState(group === NO_NAME ? "" : group);
  if (own) {
    return (
      <SelectField
        label={texts.group}
        value={group}
        onChange={onChange}
        choices={[...new Set([...groups, group])].map((value) => ({ value, text: value === NO_NAME ? texts.noName : value }))}
      />
    );
  }
  const open = () => {
    const next = text.trim() || NO_NAME;
    if (next !== group) onChange(next);
  };
  return (
    <form
      className="field"
      onSubmit={(event) => {
        event.preventDefault();
        open();
      }}
    >
      <div className="field-label">
        <label htmlFor={id}>{texts.group}</label>
      </div>
      <span className="memory-group">
        <input id={id} className="input" list={listId} value={text} placeholder={texts.noName} onChange={(event) => setText(event.target.value)} />
        <datalist id={listId}>
          {groups
            .filter((one) => one !== NO_NAME)
            .map((one) => (
              <option key={one} value={one} />
            ))}
        </datalist>
        <Button type="submit">{texts.openGroup}</Button>
      </span>
    </form>
  );
}

function Entries({ path, kind, query, mayChange }: { path: string; kind: string; query: string; mayChange: boolean }) {
  const texts = useMessages(messages);
  const pages = useInfiniteQuery({
    queryKey: ["memory", path, kind, query],
    queryFn: async ({ pageParam }): Promise<MemoryList> =>
      query
        ? call<MemoryMatches>(`${path}/search`, { query: { q: query, kind, limit: 100 } })
        : call<MemoryList>(path, { query: { kind, cursor: pageParam } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
  });
  const [deleting, setDeleting] = useState<MemoryView | null>(null);
  const [promoting, setPromoting] = useState<MemoryView | null>(null);
  const entries = pages.data?.pages.flatMap((page) => page.entries) ?? [];
  if (pages.error) return <Failure error={pages.error} onRetry={() => void pages.refetch()} />;
  if (pages.isPending) return <Loading lines={8} />;
  if (entries.length === 0) {
    return (
      <div className="plain-empty">
        <p>{query ? texts.nothing : texts.empty}</p>
        {!query && <p className="dim">{texts.emptyHelp}</p>}
      </div>
    );
  }
  return (
    <>
      <table className="plain-table" aria-label={texts.entries}>
        <thead>
          <tr>
            <th scope="col">{texts.kind}</th>
            <th scope="col">{texts.text}</th>
            <th scope="col">{texts.from}</th>
            <th scope="col">{texts.when}</th>
            {mayChange && (
              <th scope="col">
                <span className="hidden-text">{texts.actions}</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <Entry
              key={entry.id}
              entry={entry}
              mayChange={mayChange}
              onDelete={() => setDeleting(entry)}
              onPromote={() => setPromoting(entry)}
            />
          ))}
        </tbody>
      </table>
      <div className="plain-more">
        {query && <span className="dim small">{texts.bestMatches}</span>}
        {pages.hasNextPage && (
          <Button isBusy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            {texts.showMore}
          </Button>
        )}
      </div>
      {deleting && (
        <Confirm
          title={texts.deleteTitle}
          action={texts.delete}
          onClose={() => setDeleting(null)}
          onConfirm={async () => {
            await call(`${path}/${deleting.id}`, { method: "DELETE" });
            toast(texts.deleted);
            await refresh();
          }}
        >
          <blockquote className="memory-quote">{deleting.text}</blockquote>
          <p>{texts.deleteText}</p>
        </Confirm>
      )}
      {promoting && (
        <Promote path={path} body={{ entry: promoting.id }} text={promoting.text} onClose={() => setPromoting(null)} />
      )}
    </>
  );
}

function Entry({
  entry,
  mayChange,
  onDelete,
  onPromote,
}: {
  entry: MemoryView;
  mayChange: boolean;
  onDelete: () => void;
  onPromote: () => void;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const id = String(entry.id);
  return (
    <tr>
      <td data-label={texts.kind}>
        <span className={entry.shelf === "long_term" ? "plain-chip plain-chip-good" : "plain-chip"}>{entry.shelf}</span>
      </td>
      <td className="memory-text">
        <LongText text={entry.text} />
        {entry.confidence !== null && entry.confidence !== undefined && (
          <span className="dim small">{texts.confidence(formats.decimal(entry.confidence))}</span>
        )}
      </td>
      <td data-label={texts.from}>
        <Origin run={entry.run_id} address={entry.address || entry.node} />
      </td>
      <td data-label={texts.when} className="plain-when" title={formats.full(entry.time)}>
        {formats.ago(entry.time)}
      </td>
      {mayChange && (
        <td className="plain-actions">
          {entry.shelf !== "long_term" && (
            <Button aria-label={texts.promoteEntry(id)} onClick={onPromote}>
              {texts.promote}
            </Button>
          )}
          <Button kind="danger" aria-label={texts.deleteEntry(id)} onClick={onDelete}>
            {texts.delete}
          </Button>
        </td>
      )}
    </tr>
  );
}

function Origin({ run, address }: { run: string; address: string }) {
  const texts = useMessages(messages);
  if (run === "") return <span className="dim">{texts.byPerson}</span>;
  return (
    <Link className="plain-link" href={`/runs/${run}#${encodeURI(address)}`}>
      <code>{address || run.slice(0, 8)}</code>
    </Link>
  );
}

const SHORT = 280;

function LongText({ text }: { text: string }) {
  const texts = useMessages(messages);
  const [isOpen, setOpen] = useState(false);
  const isLong = text.length > SHORT || text.split("\n").length > 4;
  const cut = text.split("\n").slice(0, 4).join("\n").slice(0, SHORT);
  return (
    <>
      <p className="memory-words">{isLong && !isOpen ? `${cut}…` : text}</p>
      {isLong && (
        <Button kind="quiet" className="memory-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? texts.showLess : texts.showAll}
        </Button>
      )}
    </>
  );
}

function Promote({ path, body, text, onClose }: { path: string; body: PromoteBody; text: string; onClose: () => void }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const [isBusy, setBusy] = useState(false);
  const promote = async () => {
    setBusy(true);
    try {
      const { entries } = await call<MemoryMatches>(path, { body });
      toast(texts.promoted(formats.number(entries.length)));
      await refresh();
      onClose();
    } catch (error) {
      toastError(error);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={texts.promoteTitle}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="primary" isBusy={isBusy} onClick={() => void promote()}>
            {texts.promote}
          </Button>
        </>
      }
    >
      <div className="plain-stack">
        <blockquote className="memory-quote">{text}</blockquote>
        <p>{texts.promoteHelp}</p>
      </div>
    </Dialog>
  );
}

function AddText({ path, name, onClose }: { path: string; name: string; onClose: () => void }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const [text, setText] = useState("");
  const [isTried, setTried] = useState(false);
  const add = async () => {
    setTried(true);
    if (!text.trim()) return;
    const { entries } = await call<MemoryMatches>(path, { body: { text } satisfies PromoteBody });
    toast(texts.promoted(formats.number(entries.length)));
    await refresh();
    onClose();
  };
  return (
    <FormDialog title={texts.addTitle} action={texts.add} onSubmit={add} onClose={onClose}>
      <TextArea
        label={texts.text}
        rows={6}
        autoFocus
        value={text}
        onChange={setText}
        help={texts.addHelp(name)}
        error={isTried && !text.trim() ? texts.textNeeded : undefined}
      />
    </FormDialog>
  );
}

/** All outputs of one run: what may be promoted. */
function Quarantine({
  shown,
  show,
  mayPromote,
  path,
}: {
  shown: Shown;
  show: (change: Partial<Shown>) => void;
  mayPromote: boolean;
  path: string;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const group = shown.group === NO_NAME ? "" : shown.group;
  const runs = useQuery({
    queryKey: ["memory", "runs", group],
    queryFn: () => call<RunList>("/runs", { query: group ? { group, limit: 100 } : { limit: 200 } }),
  });
  const outputs = useInfiniteQuery({
    queryKey: ["memory", "quarantine", shown.run],
    queryFn: ({ pageParam }) =>
      call<QuarantinePage>(`/runs/${encodeURIComponent(shown.run)}/quarantine`, { query: { cursor: pageParam } }),
    initialPageParam: "",
    getNextPageParam: (last: QuarantinePage) => last.next ?? undefined,
    enabled: shown.run !== "",
  });
  const outputsSoFar = outputs.data?.pages.flatMap((page) => page.messages);
  const [promoting, setPromoting] = useState<QuarantinedView | null>(null);
  if (runs.error) return <Failure error={runs.error} onRetry={() => void runs.refetch()} />;
  if (runs.data === undefined) return <Loading />;
  const own = runs.data.runs.filter((run) => run.group === group);
  const isListed = own.some((run) => run.id === shown.run);
  return (
    <>
      <div className="memory-run">
        <SelectField
          label={texts.run}
          value={shown.run}
          onChange={(run) => show({ run })}
          help={own.length === 0 ? texts.noRuns : texts.chooseRunHelp}
          choices={[
            { value: "", text: texts.chooseRun },
            ...(shown.run && !isListed ? [{ value: shown.run, text: shown.run }] : []),
            ...own.map((run) => ({
              value: run.id,
              text: `${run.workflow} ${run.id.slice(0, 8)} · ${formats.short(run.created)} · ${run.input.slice(0, 60)}`,
            })),
          ]}
        />
      </div>
      {outputs.error && <Failure error={outputs.error} onRetry={() => void outputs.refetch()} />}
      {shown.run !== "" && outputs.isPending && <Loading />}
      {outputsSoFar?.length === 0 && !outputs.hasNextPage && <p className="plain-empty">{texts.noOutputs}</p>}
      {outputsSoFar !== undefined && outputsSoFar.length > 0 && (
        <table className="plain-table" aria-label={texts.quarantine}>
          <thead>
            <tr>
              <th scope="col">{texts.node}</th>
              <th scope="col">{texts.text}</th>
              <th scope="col">{texts.when}</th>
              {mayPromote && (
                <th scope="col">
                  <span className="hidden-text">{texts.actions}</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {outputsSoFar.map((one, index) => (
              <tr key={`${one.address} ${index}`}>
                <td data-label={texts.node}>
                  <Origin run={shown.run} address={one.address} />
                </td>
                <td className="memory-text">
                  <LongText text={one.content} />
                  {one.confidence !== null && one.confidence !== undefined && (
                    <span className="dim small">{texts.confidence(formats.decimal(one.confidence))}</span>
                  )}
                </td>
                <td data-label={texts.when} className="plain-when" title={formats.full(one.time)}>
                  {formats.clock(one.time)}
                </td>
                {mayPromote && (
                  <td className="plain-actions">
                    <Button aria-label={texts.promoteOutput(one.address)} onClick={() => setPromoting(one)}>
                      {texts.promote}
                    </Button>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {outputs.hasNextPage && (
        <div className="plain-more">
          <Button isBusy={outputs.isFetchingNextPage} onClick={() => void outputs.fetchNextPage()}>
            {texts.showMore}
          </Button>
        </div>
      )}
      {promoting && (
        <Promote
          path={path}
          body={{ run: shown.run, at: promoting.address }}
          text={promoting.content}
          onClose={() => setPromoting(null)}
        />
      )}
    </>
  );
}
