// Saved workflows and templates; one of them with its text, drawing, bounds and versions.
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useParams, useSearch } from "wouter";
import { call } from "../../api/client";
import { useMe } from "../../api/queries";
import type { WorkflowList, WorkflowSummary } from "../../api/schema";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { TextField } from "../../ui/Field";
import { Later, later } from "../../ui/later";
import { Failure, Loading } from "../../ui/State";
import { toast } from "../../ui/toasts";
import { Confirm } from "../settings/Confirm";
import "../settings/plain.css";
import { may } from "../settings/roles";
import { chooseFiles } from "./import/files";
import { FileDrop } from "./import/FileDrop";
import { messages } from "./messages";
import { deleteWorkflow, editorPath, nameIn, pathOfWorkflow, startPath, State } from "./shared";
import { Templates } from "./Templates";
import { TemplateDetail, WorkflowDetail } from "./WorkflowDetail";
import "./workflows.css";

const ImportDialog = later(() => import("./import/ImportDialog"));

export default function WorkflowsPage() {
  const { name: isOne } = useParams<{ name?: string }>();
  const query = new URLSearchParams(useSearch());
  const template = query.get("template");
  if (isOne) {
    const name = nameIn(location.pathname);
    return <WorkflowDetail key={name} name={name} group={query.get("group")} />;
  }
  if (template) return <TemplateDetail name={template} />;
  return <Lists />;
}

function Lists() {
  const texts = useMessages(messages);
  const me = useMe();
  const [query, setQuery] = useState("");
  const pages = useInfiniteQuery({
    queryKey: ["workflows", "list", query.trim()],
    queryFn: ({ pageParam }) => call<WorkflowList>("/workflows", { query: { q: query.trim(), cursor: pageParam } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
  });
  const [deleting, setDeleting] = useState<WorkflowSummary | null>(null);
  const [imported, setImported] = useState<readonly File[] | null>(null);
  const [, navigate] = useLocation();
  const mayWrite = may(me.data?.role, "author");
  const all = pages.data?.pages.flatMap((page) => page.workflows) ?? [];
  return (
    <>
      <header className="plain-head">
        <div className="plain-title">
          <h1>{texts.workflows}</h1>
          <span className="plain-spread" />
          {mayWrite && <Beginnings onImport={setImported} />}
        </div>
        <div className="plain-tools">
          <TextField label={texts.search} type="search" placeholder={texts.searchHint} value={query} onChange={setQuery} />
        </div>
      </header>
      {pages.error && <Failure error={pages.error} onRetry={() => void pages.refetch()} />}
      {pages.isPending && <Loading />}
      {pages.isSuccess && all.length === 0 && (
        <div className="plain-empty">
          <p>{query.trim() ? texts.nothing : texts.empty}</p>
          {!query.trim() && <p className="dim">{mayWrite ? texts.emptyHelp : texts.emptyForReaders}</p>}
          {!query.trim() && mayWrite && (
            <div className="workflows-begin">
              <Beginnings onImport={setImported} />
            </div>
          )}
        </div>
      )}
      {all.length > 0 && (
        <table className="plain-table" aria-label={texts.workflows}>
          <thead>
            <tr>
              <th scope="col">{texts.name}</th>
              <th scope="col">{texts.description}</th>
              <th scope="col">{texts.state}</th>
              <th scope="col" className="plain-number">
                {texts.version}
              </th>
              <th scope="col">{texts.updated}</th>
              <th scope="col">
                <span className="hidden-text">{texts.actions}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map((workflow) => (
              <Row
                key={`${workflow.group}/${workflow.name}`}
                workflow={workflow}
                mayStart={may(me.data?.role, "operator")}
                mayWrite={mayWrite}
                onDelete={() => setDeleting(workflow)}
              />
            ))}
          </tbody>
        </table>
      )}
      {pages.hasNextPage && (
        <div className="plain-more">
          <Button isBusy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            {texts.showMore}
          </Button>
        </div>
      )}
      <Templates mayUse={mayWrite} />
      {mayWrite && <FileDrop onFiles={setImported} />}
      {imported && (
        <Later>
          <ImportDialog
            // Files that are dropped meanwhile are another import.
            key={imported.map((file) => `${file.name} ${file.lastModified}`).join("/")}
            files={imported}
            onClose={() => setImported(null)}
            onOpen={({ text, name }) => navigate("/workflows/new", { state: { text, name } })}
          />
        </Later>
      )}
      {deleting && (
        <Confirm
          title={texts.deleteTitle}
          action={texts.delete}
          onClose={() => setDeleting(null)}
          onConfirm={async () => {
            await deleteWorkflow(deleting);
            toast(texts.deleted(deleting.name));
          }}
        >
          <p>{texts.deleteText(deleting.name)}</p>
        </Confirm>
      )}
    </>
  );
}

/** What a workflow can begin with, beside the templates. */
function Beginnings({ onImport }: { onImport: (files: readonly File[]) => void }) {
  const texts = useMessages(messages);
  return (
    <>
      <Button icon="raise" onClick={() => chooseFiles(onImport)}>
        {texts.import}
      </Button>
      <Link className="button button-primary" href="/workflows/new">
        {texts.newWorkflow}
      </Link>
    </>
  );
}

function Row({
  workflow,
  mayStart,
  mayWrite,
  onDelete,
}: {
  workflow: WorkflowSummary;
  mayStart: boolean;
  mayWrite: boolean;
  onDelete: () => void;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  return (
    <tr>
      <td data-label={texts.name}>
        <Link className="plain-link strong" href={pathOfWorkflow(workflow)}>
          {workflow.name}
        </Link>{" "}
        {workflow.group && <span className="dim">{texts.group(workflow.group)}</span>}
      </td>
      <td className="workflows-about">{workflow.description}</td>
      <td data-label={texts.state}>
        <State workflow={workflow} />
      </td>
      <td data-label={texts.version} className="plain-number">
        {formats.number(workflow.version)}
      </td>
      <td data-label={texts.updated} title={formats.full(workflow.updated)}>
        {formats.ago(workflow.updated)} {workflow.author && <span className="dim">{texts.by(workflow.author)}</span>}
      </td>
      <td className="plain-actions">
        {mayWrite && (
          <Link className="button" href={editorPath(workflow)} aria-label={texts.editNamed(workflow.name)}>
            {texts.edit}
          </Link>
        )}
        {mayStart && !workflow.draft && (
          <Link className="button" href={startPath(workflow)} aria-label={texts.startRunOf(workflow.name)}>
            {texts.startRun}
          </Link>
        )}
        {mayWrite && (
          <Button kind="danger" icon="trash" aria-label={texts.deleteNamed(workflow.name)} onClick={onDelete} />
        )}
      </td>
    </tr>
  );
}
