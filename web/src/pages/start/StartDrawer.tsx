// Starts a run: what to start, with which input, and what it will take.
import { useEffect, useId, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { ApiError, call } from "../../api/client";
import { keys, queryClient } from "../../api/queries";
import type { Proof, StartedRun, VariableView } from "../../api/schema";
import { useKeys } from "../../app/keys";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { TextArea } from "../../ui/Field";
import { Icon } from "../../ui/Icon";
import { Failure, Loading } from "../../ui/State";
import { toast, toastError } from "../../ui/toasts";
import { EMPTY_DRAFT, keepDraft, readDraft, type Draft } from "./draft";
import { ForecastPane } from "./ForecastPane";
import { LimitFields } from "./LimitFields";
import { messages } from "./messages";
import { ScriptField, useScript } from "./ScriptField";
import { sourceNamed, useCheck, useForecast, useRights, useSources, useText, type Source } from "./sources";
import { bodyOf, commandOf, dataOf, IdempotencyKeys, limitsOf, errorsOf, refusalOf, variablesOf, type Field, type Refusal } from "./start";
import { VariableFields } from "./VariableFields";
import "./start.css";

const NO_VARIABLES: readonly VariableView[] = [];

/** `workflow` is the one to start, as `NAME` or `GROUP/NAME`; empty for that of the draft. */
export default function StartDrawer({ workflow: wanted, onClose }: { workflow: string; onClose: () => void }) {
  const texts = useMessages(messages);
  const [, navigate] = useLocation();
  const [draft, setDraft] = useState(readDraft);
  const change = (some: Partial<Draft>) => setDraft((before) => ({ ...before, ...some }));
  useEffect(() => keepDraft(draft), [draft]);

  const rights = useRights();
  const { sources, isLoaded, error } = useSources(rights);
  const source = sources.find((one) => one.key === draft.workflow);
  const choose = (next: Source | undefined) => {
    if (next === undefined) return;
    const isSame = next.key === draft.workflow;
    change({
      workflow: next.key,
      // The values and the script of another workflow mean nothing here; the input may.
      ...(isSame ? {} : { variables: {}, script: next.type === "template" ? "template" : "none", scriptRun: "" }),
      ...(next.type === "template" && (draft.input === "" || isInputOfTemplate(draft.input, sources))
        ? { input: next.template.input }
        : {}),
    });
  };
  // The first one is chosen, unless the address or the draft has one.
  const [isChosen, setChosen] = useState(false);
  const asked = wanted === "" ? undefined : sourceNamed(wanted, sources);
  if (isLoaded && !isChosen) {
    setChosen(true);
    if (asked !== undefined) choose(asked);
    else if (source === undefined) choose(sources[0]);
    else if (source.type === "template" && draft.input === "") change({ input: source.template.input });
  }

  const { text, error: textError } = useText(source);
  const check = useCheck(text);
  const variables = check.data?.variables ?? NO_VARIABLES;
  const limits = limitsOf(draft);
  const forecast = useForecast(text, variablesOf(draft, variables), limits.values);
  const script = useScript(draft, source);
  const name = check.data?.workflow || source?.name || "";

  const [refusal, setRefusal] = useState<Refusal | null>(null);
  useEffect(() => setRefusal(null), [draft]);
  const errorOf = (field: Field) => (refusal?.field === field ? refusal.notes.map((note) => note.text).join(" ") : "");
  const isDataWrong = dataOf(draft) === undefined;
  const isWrong = isDataWrong || limits.wrong.length > 0 || script.error !== "";
  const canStart = rights.mayStart && source !== undefined && text !== undefined && !script.isLoading;

  const idempotency = useRef(new IdempotencyKeys());
  const [busy, setBusy] = useState<"" | "run" | "paused">("");
  const isStarting = useRef(false);
  const start = async (isPaused: boolean) => {
    // The state of React is too slow for a double click.
    if (!canStart || isStarting.current) return;
    if (isWrong) {
      setRefusal({ field: "", notes: [{ line: 0, text: texts.fixFirst }] });
      return;
    }
    isStarting.current = true;
    setBusy(isPaused ? "paused" : "run");
    const isSaved = source.type === "saved";
    const workflow = isSaved ? source.name : { text };
    const group = isSaved ? source.summary.group : undefined;
    const body = bodyOf(draft, workflow, group, variables, script.value, isPaused);
    try {
      const started = await call<StartedRun>("/runs", { body, headers: { "idempotency-key": idempotency.current.keyFor(body) } });
      keepDraft({ ...EMPTY_DRAFT, workflow: draft.workflow });
      void queryClient.invalidateQueries({ queryKey: keys.runs });
      onClose();
      navigate(`/runs/${started.id}`);
    } catch (problem) {
      if (problem instanceof ApiError) setRefusal(refusalOf(problem.problem, problem.message));
      else toastError(problem);
      setBusy("");
      isStarting.current = false;
    }
  };
  useKeys([{ keys: "Ctrl Enter", text: texts.startKey, action: () => void start(false) }]);

  const command = useMemo(
    () => commandOf(draft, source?.name ?? "workflow", variables, draft.script !== "none"),
    [draft, source?.name, variables],
  );
  const errors = refusal?.field === "workflow" ? refusal.notes : errorsOf(check.data?.diagnostics ?? []);
  const footer = (
    <>
      <span className="start-note dim small">{texts.note}</span>
      <Button icon="pause" disabled={!canStart || busy !== ""} isBusy={busy === "paused"} onClick={() => void start(true)}>
        {texts.startPaused}
      </Button>
      <Button
        kind="primary"
        hint="Ctrl ↵"
        disabled={!canStart || busy !== ""}
        isBusy={busy === "run"}
        onClick={() => void start(false)}
      >
        {texts.start}
      </Button>
    </>
  );
  return (
    <Dialog title={texts.title} kind="drawer" onClose={onClose} footer={footer}>
      {error && <Failure error={error} />}
      {!isLoaded && !error && <Loading />}
      {isLoaded && (
        <div className="start">
          <div className="start-fields">
            {!rights.mayStart && <p className="start-problem">{texts.viewer}</p>}
            {wanted !== "" && asked === undefined && (
              <p className="start-problem" role="alert">
                {texts.unknown(wanted)}
              </p>
            )}
            {errorOf("") && (
              <p className="start-problem" role="alert">
                {errorOf("")}
              </p>
            )}
            <section className="start-part">
              {sources.length === 0 ? (
                <p className="dim">
                  {texts.noWorkflows} {!rights.mayStartTexts && texts.noneOperator}
                </p>
              ) : (
                <WorkflowField sources={sources} source={source} onChange={choose} />
              )}
              {textError && <Failure error={textError} />}
              {errors.length > 0 ? (
                <ul className="start-errors" role="alert">
                  {errors.map(({ line, text: said }) => (
                    <li key={`${line} ${said}`}>{line ? texts.line(line, said) : said}</li>
                  ))}
                </ul>
              ) : (
                check.data && <Proofs loops={forecast.data?.loops ?? check.data.loops} />
              )}
            </section>
            <section className="start-part">
              <TextArea
                label={texts.input}
                rows={3}
                autoFocus
                value={draft.input}
                onChange={(input) => change({ input })}
                error={errorOf("input")}
              />
              {draft.data === null ? (
                <div className="start-right">
                  <Button kind="quiet" icon="data" onClick={() => change({ data: "{}" })}>
                    {texts.addData}
                  </Button>
                </div>
              ) : (
                <TextArea
                  label={texts.data}
                  rows={3}
                  isMono
                  value={draft.data}
                  onChange={(data) => change({ data })}
                  error={isDataWrong ? texts.dataWrong : ""}
                  aside={
                    <Button kind="quiet" icon="close" aria-label={texts.removeData} onClick={() => change({ data: null })} />
                  }
                />
              )}
            </section>
            {variables.length > 0 && (
              <VariableFields
                variables={variables}
                values={draft.variables}
                error={errorOf("variables")}
                onChange={(values) => change({ variables: values })}
              />
            )}
            <LimitFields
              values={draft.limits}
              wrong={limits.wrong}
              error={errorOf("limits")}
              onChange={(values) => change({ limits: values })}
            />
            <ScriptField
              draft={draft}
              source={source}
              workflow={name}
              error={script.error || errorOf("script")}
              onChange={change}
            />
            <Breakpoints draft={draft} error={errorOf("breakpoints")} onChange={(breakpoints) => change({ breakpoints })} />
          </div>
          <div className="start-side">
            <ForecastPane result={forecast.data} limit={limits.values["tokens"]} />
            <section className="start-terminal" aria-label={texts.terminal}>
              <h3>{texts.terminal}</h3>
              <div className="start-command">
                <pre>{command}</pre>
                {/* There is no clipboard without HTTPS, except on this machine. */}
                {navigator.clipboard !== undefined && (
                  <Button
                    kind="quiet"
                    icon="copy"
                    aria-label={texts.copy}
                    onClick={() => void navigator.clipboard.writeText(command).then(() => toast(texts.copied), toastError)}
                  />
                )}
              </div>
            </section>
          </div>
        </div>
      )}
    </Dialog>
  );
}

function isInputOfTemplate(input: string, sources: readonly Source[]): boolean {
  return sources.some((one) => one.type === "template" && one.template.input === input);
}

function WorkflowField({
  sources,
  source,
  onChange,
}: {
  sources: readonly Source[];
  source: Source | undefined;
  onChange: (source: Source | undefined) => void;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const id = useId();
  const groups = new Set(sources.map((one) => (one.type === "saved" ? one.summary.group : "")));
  const textOf = (one: Source) => {
    if (one.type === "template") return one.name;
    const place = groups.size > 1 && one.summary.group ? `${one.summary.group}/` : "";
    const { draft, errors, version, updated } = one.summary;
    return `${place}${one.name} · ${draft ? texts.draft(errors) : texts.version(version, formats.short(updated))}`;
  };
  const help = source?.type === "template" ? source.template.title : source?.summary.description;
  return (
    <div className="field">
      <label htmlFor={id} className="field-label">
        {texts.workflow}
      </label>
      <select
        id={id}
        className="input"
        value={source?.key ?? ""}
        onChange={(event) => onChange(sources.find((one) => one.key === event.target.value))}
      >
        {source === undefined && <option value="">{texts.choose}</option>}
        {(["saved", "template"] as const).map((type) => {
          const some = sources.filter((one) => one.type === type);
          return (
            some.length > 0 && (
              <optgroup key={type} label={type === "saved" ? texts.saved : texts.templates}>
                {some.map((one) => (
                  <option key={one.key} value={one.key}>
                    {textOf(one)}
                  </option>
                ))}
              </optgroup>
            )
          );
        })}
      </select>
      {help && <p className="field-help">{help}</p>}
    </div>
  );
}

/** What bounds each loop: the reason why a run ends. */
function Proofs({ loops }: { loops: readonly Proof[] }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  if (loops.length === 0) return <p className="start-proof">{texts.noLoops}</p>;
  return (
    <ul>
      {loops.map((loop) => {
        const guards = loop.bounded_by.map((one) => one.guard).join(", ");
        const bound = loop.worst_case_rounds;
        const clock = loop.bounded_by.find((one) => typeof one.limit === "string")?.limit;
        const rounds = bound === null ? (clock ?? texts.byCap(texts.rounds(loop.cap))) : texts.rounds(bound);
        const total = loop.worst_case_total;
        return (
          <li key={`${loop.depth} ${loop.id}`} className="start-proof">
            <Icon name="shield" />
            <span>
              {texts.loopBound(loop.id, String(rounds))}
              {guards && texts.byGuard(guards)}
              {total !== null && total !== bound && texts.loopTotal(formats.number(total))}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

function Breakpoints({ draft, error, onChange }: { draft: Draft; error: string; onChange: (breakpoints: string[]) => void }) {
  const texts = useMessages(messages);
  const places = draft.breakpoints;
  return (
    <section className="start-part">
      <div className="start-head">
        <h3>{texts.breakpoints}</h3>
        <Button kind="quiet" icon="plus" onClick={() => onChange([...places, ""])}>
          {texts.add}
        </Button>
      </div>
      {places.map((place, index) => (
        <div key={index} className="start-breakpoint">
          <input
            className="input mono"
            aria-label={texts.breakpoint(index + 1)}
            placeholder={texts.breakpointHint}
            spellCheck={false}
            autoFocus={place === ""}
            value={place}
            aria-invalid={error ? true : undefined}
            onChange={(event) => onChange(places.with(index, event.target.value))}
          />
          <Button
            kind="quiet"
            icon="close"
            aria-label={`${texts.remove}: ${texts.breakpoint(index + 1)}`}
            onClick={() => onChange(places.filter((_, other) => other !== index))}
          />
        </div>
      ))}
      {error && (
        <p className="field-error" role="alert">
          {error}
        </p>
      )}
    </section>
  );
}
