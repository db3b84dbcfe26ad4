// One workflow: its text, and what the server knows about it.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo, useRef, useState, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { ApiError, call } from "../../api/client";
import { useMe } from "../../api/queries";
import type { CheckResult, Diagnostic, VersionList, WorkflowView } from "../../api/schema";
import { useFormats } from "../../i18n/format";
import { useLanguage, useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { SelectField } from "../../ui/Field";
import { Menu } from "../../ui/Menu";
import { Failure, Loading } from "../../ui/State";
import { toast, toastError } from "../../ui/toasts";
import { Confirm } from "../settings/Confirm";
import { may } from "../settings/roles";
import { Diagnostics, Loops } from "./facts";
import { EXPORT_TEXTS, exportWorkflow, FORMATS } from "./formats";
import { messages } from "./messages";
import { deleteWorkflow, editorPath, startPath, State } from "./shared";
import { StaticDrawing } from "./StaticDrawing";
import { templatePath, useTemplates } from "./templates";

export function WorkflowDetail({ name, group }: { name: string; group: string | null }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const me = useMe();
  const [, navigate] = useLocation();
  const [chosen, setChosen] = useState("");
  const [isDeleting, setDeleting] = useState(false);
  const path = `/workflows/${encodeURIComponent(name)}`;
  const query = group === null ? {} : { group };
  const current = useQuery({
    queryKey: ["workflows", "one", name, group],
    queryFn: () => call<WorkflowView>(path, { query }),
  });
  const pages = useInfiniteQuery({
    queryKey: ["workflows", "versions", name, group],
    queryFn: ({ pageParam }) => call<VersionList>(`${path}/versions`, { query: { ...query, cursor: pageParam } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });
  const versions = pages.data?.pages.flatMap((page) => page.versions) ?? [];
  // A workflow that was deleted has versions, and nothing else.
  const isGone = current.error instanceof ApiError && current.error.status === 404 && versions.length > 0;
  const number = chosen || (isGone ? String(versions[0]?.version ?? "") : "");
  const old = useQuery({
    queryKey: ["workflows", "version", name, group, number],
    queryFn: () => call<WorkflowView>(`${path}/versions/${number}`, { query }),
    enabled: number !== "" && number !== String(current.data?.version ?? ""),
    staleTime: Infinity,
  });
  const isNewest = number === "" || number === String(current.data?.version ?? "");
  const shown = isNewest ? current.data : old.data;
  const failure = isNewest ? (isGone ? null : current.error) : old.error;
  const newest = current.data;
  return (
    <>
      <header className="plain-head">
        <nav>
          <Link className="plain-link" href="/workflows">
            {texts.all}
          </Link>
        </nav>
        <div className="plain-title">
          <h1>{name}</h1>
          {newest && <State workflow={newest} />}
          {newest?.group && <span className="dim">{texts.group(newest.group)}</span>}
          <span className="plain-spread" />
          {newest && may(me.data?.role, "author") && (
            <Link className="button" href={editorPath(newest)}>
              {texts.edit}
            </Link>
          )}
          {newest && !newest.draft && may(me.data?.role, "operator") && (
            <Link className="button button-primary" href={startPath(newest)}>
              {texts.startRun}
            </Link>
          )}
          {newest && may(me.data?.role, "author") && (
            <Button kind="danger" icon="trash" onClick={() => setDeleting(true)}>
              {texts.delete}
            </Button>
          )}
          {shown && <ExportMenu name={name} text={shown.text} />}
        </div>
        {shown?.description && <p className="dim">{shown.description}</p>}
        <div className="plain-tools">
          {versions.length > 0 && (
            <div className="workflows-version">
              <SelectField
                label={texts.showVersion}
                value={number || String(newest?.version ?? "")}
                onChange={setChosen}
                choices={versions.map((one) => ({
                  value: String(one.version),
                  text: texts.versionOf(one.version, formats.full(one.updated), one.author),
                }))}
              />
            </div>
          )}
          {pages.hasNextPage && (
            <Button isBusy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
              {texts.moreVersions}
            </Button>
          )}
          {newest && newest.version > 1 && (
            <Link className="button" href={editorPath(newest, { versions: "all" })}>
              {texts.compareVersions}
            </Link>
          )}
          {!isNewest && newest && <span className="dim">{texts.newest(newest.version)}</span>}
          {isGone && <span className="plain-chip plain-chip-warn">{texts.wasDeleted}</span>}
        </div>
      </header>
      {failure && pages.isFetched && <Failure error={failure} onRetry={() => void current.refetch()} />}
      {shown ? <Checked text={shown.text} name={name} /> : !failure && <Loading lines={8} />}
      {isDeleting && newest && (
        <Confirm
          title={texts.deleteTitle}
          action={texts.delete}
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            await deleteWorkflow(newest);
            toast(texts.deleted(name));
            navigate("/workflows");
          }}
        >
          <p>{texts.deleteText(name)}</p>
        </Confirm>
      )}
    </>
  );
}

export function TemplateDetail({ name }: { name: string }) {
  const texts = useMessages(messages);
  const me = useMe();
  const templates = useTemplates();
  const template = templates.data?.templates.find((one) => one.name === name);
  return (
    <>
      <header className="plain-head">
        <nav>
          <Link className="plain-link" href="/workflows">
            {texts.all}
          </Link>
        </nav>
        <div className="plain-title">
          <h1>{name}</h1>
          <span className="plain-chip">{texts.templates}</span>
          <span className="plain-spread" />
          {template && may(me.data?.role, "author") && (
            <Link className="button button-primary" href={templatePath(name)}>
              {texts.use}
            </Link>
          )}
          {template && <ExportMenu name={name} text={template.text} />}
        </div>
        {template && <p className="dim">{template.description}</p>}
        {template && !template.ok && <p className="dim small">{texts.needsFilesHelp}</p>}
      </header>
      {templates.error && <Failure error={templates.error} onRetry={() => void templates.refetch()} />}
      {templates.isSuccess && template === undefined && <Failure error={new ApiError(404, "not-found", name)} />}
      {template && (
        <Checked text={template.text} name={name}>
          {template.input && (
            <Part title={texts.input}>
              <p className="workflows-input">{template.input}</p>
            </Part>
          )}
          {template.script && (
            <Part title={texts.script}>
              <pre className="workflows-script" tabIndex={0}>
                {template.script}
              </pre>
            </Part>
          )}
        </Checked>
      )}
    </>
  );
}

function ExportMenu({ name, text }: { name: string; text: string }) {
  const texts = useMessages(messages);
  const language = useLanguage((state) => state.language);
  const items = FORMATS.map((format) => ({
    text: EXPORT_TEXTS[format][language],
    icon: "download" as const,
    action: () => void exportWorkflow(format, name, text),
  }));
  return <Menu label={texts.more} items={items} />;
}

/** A text beside its drawing, bounds and diagnostics. */
function Checked({ text, name, children }: { text: string; name: string; children?: ReactNode }) {
  const texts = useMessages(messages);
  const check = useQuery({
    queryKey: ["check", text],
    queryFn: () => call<CheckResult>("/check", { body: { text, name } }),
    staleTime: 60_000,
  });
  const source = useRef<HTMLOListElement>(null);
  const goTo = (line: number) => {
    const row = source.current?.children[line - 1];
    row?.scrollIntoView({ block: "center" });
    source.current?.querySelector(".workflows-here")?.classList.remove("workflows-here");
    row?.classList.add("workflows-here");
  };
  const result = check.data;
  return (
    <div className="workflows-panes">
      <div className="workflows-facts">
        {check.error && <Failure error={check.error} onRetry={() => void check.refetch()} />}
        {check.isPending && <Loading />}
        {result && (
          <>
            <Part title={texts.diagnostics}>
              <Diagnostics result={result} onLine={goTo} />
            </Part>
            <Part title={texts.loops}>
              <Loops result={result} />
            </Part>
            <Part title={texts.drawing}>
              {result.drawing === null ? (
                <p className="dim">{texts.noDrawing}</p>
              ) : (
                <div className="workflows-drawing">
                  <StaticDrawing drawing={result.drawing} label={texts.drawingOf(name)} />
                </div>
              )}
            </Part>
          </>
        )}
        {children}
      </div>
      <section className="workflows-source" aria-label={texts.text}>
        <header>
          <h2>{texts.text}</h2>
          <Button
            icon="copy"
            onClick={() => {
              // Only pages over HTTPS or on this machine have a clipboard.
              Promise.resolve()
                .then(() => navigator.clipboard.writeText(text))
                .then(() => toast(texts.copied), toastError);
            }}
          >
            {texts.copy}
          </Button>
        </header>
        <Source text={text} diagnostics={result?.diagnostics ?? []} list={source} />
      </section>
    </div>
  );
}

function Source({
  text,
  diagnostics,
  list,
}: {
  text: string;
  diagnostics: readonly Diagnostic[];
  list: React.RefObject<HTMLOListElement | null>;
}) {
  const lines = useMemo(() => text.replace(/\n$/, "").split("\n"), [text]);
  const marks = new Map(diagnostics.map((one) => [one.line, one.severity]));
  return (
    <ol className="workflows-text" ref={list} tabIndex={0}>
      {lines.map((line, index) => (
        <li key={index} className={marks.has(index + 1) ? `workflows-${marks.get(index + 1)}` : undefined}>
          {line || "\n"}
        </li>
      ))}
    </ol>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="workflows-part">
      <h2>{title}</h2>
      {children}
    </section>
  );
}
