// Retry a failed run, as it was or with changes; and what that runs again.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../../api/client";
import { keys, queryClient, useMe } from "../../../api/queries";
import type { RetryBody, RunView, WorkflowList } from "../../../api/schema";
import { useKeys } from "../../../app/keys";
import { useMessages } from "../../../i18n/messages";
import { useRun } from "../../../live/useRunEvents";
import { Button, Segmented } from "../../../ui/Button";
import { SelectField, TextField } from "../../../ui/Field";
import { toast } from "../../../ui/toasts";
import { useRunContext } from "../context";
import { roundStepOf } from "../people/question";
import { unlessDialog } from "../people/useSendAnswer";
import { mainFailure, readLimits, retryPlan } from "./failure";
import { messages } from "./messages";
import "./failed.css";

const LIMITS = ["tokens", "cost_usd", "seconds", "model_calls"] as const;
const MOST_THEN = 4;

export function FailedSide() {
  const texts = useMessages(messages);
  const me = useMe();
  const { runId, store, plan, mayControl } = useRunContext();
  const [mode, setMode] = useState<"same" | "changed">("same");
  const [limits, setLimits] = useState<Record<string, string>>({});
  const [workflow, setWorkflow] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState("");
  useRun(store, (model) => model.seq);
  const { model } = store.getState();
  const failure = mainFailure(model);
  const step = failure === undefined ? undefined : roundStepOf(failure.address);
  const given = readLimits(limits);
  const canRetry = mayControl && !isBusy && (mode === "same" || given !== undefined);
  const retry = async () => {
    if (!canRetry) return;
    setBusy(true);
    setError("");
    const changes: RetryBody = { ...(given && Object.keys(given).length ? { limits: given } : {}), ...(workflow ? { workflow } : {}) };
    try {
      const view = await call<RunView>(`/runs/${runId}/retry`, { body: mode === "same" ? {} : changes });
      // A run that fails at once looks the same as before: say that it was tried.
      if (view.status === "failed") toast(texts.failedAgain, "failed");
      void queryClient.invalidateQueries({ queryKey: keys.run(runId) });
    } catch (problem) {
      setError((problem as Error).message);
    } finally {
      setBusy(false);
    }
  };
  const button = step === undefined ? texts.retryRun : texts.retryRound(step.round);
  useKeys(mayControl ? [{ keys: "Ctrl Enter", text: texts.retry, action: unlessDialog(() => void retry()) }] : []);
  return (
    <aside className="failed-side" aria-label={texts.retry}>
      <header className="failed-side-head">
        <h2>{texts.retry}</h2>
        {mayControl && (
          <Segmented
            label={texts.mode}
            choices={[
              { value: "same", text: texts.asItWas },
              { value: "changed", text: texts.withChanges },
            ]}
            value={mode}
            onChange={setMode}
          />
        )}
      </header>
      <div className="failed-side-body">
        <WhatRetryDoes />
        {mode === "changed" && (
          <>
            <section className="failed-part">
              <h3>{texts.limits}</h3>
              <div className="failed-limits">
                {LIMITS.map((name) => (
                  <TextField
                    key={name}
                    label={texts.limit(name)}
                    value={limits[name] ?? ""}
                    placeholder={String(plan.limits[name] ?? texts.none)}
                    onChange={(value) => setLimits({ ...limits, [name]: value })}
                  />
                ))}
              </div>
              {given === undefined ? (
                <p className="field-error" role="alert">
                  {texts.badLimit}
                </p>
              ) : (
                <p className="failed-help">{texts.limitsHelp}</p>
              )}
            </section>
            <WorkflowChoice value={workflow} onChange={setWorkflow} />
          </>
        )}
      </div>
      <footer className="run-foot">
        {error && (
          <p className="field-error" role="alert">
            {error}
          </p>
        )}
        {mayControl ? (
          <>
            <Button
              kind="primary"
              icon="retry"
              hint="Ctrl Enter"
              isBusy={isBusy}
              disabled={!canRetry}
              onClick={() => void retry()}
            >
              {button}
            </Button>
            <p className="failed-help">
              {texts.staysVisible} {me.data && texts.signedAs(me.data.name)}
            </p>
          </>
        ) : (
          <p className="failed-help">{texts.mayNot}</p>
        )}
      </footer>
    </aside>
  );
}

function WhatRetryDoes() {
  const texts = useMessages(messages);
  const { store, plan } = useRunContext();
  const { again, then, kept, keptRounds, keptCalls } = retryPlan(store.getState().model, plan.drawing);
  return (
    <section className="failed-part" aria-label={texts.whatRetryDoes}>
      <h3>{texts.whatRetryDoes}</h3>
      <dl className="failed-plan">
        {again.slice(0, 6).map((one, index) => (
          <div key={one.address}>
            <dt>{index === 0 ? texts.runsAgain : ""}</dt>
            <dd>
              <code>{one.address}</code>
              <span className="dim">
                {one.isEdge ? texts.onlyItsEdge : one.toolRound !== null && texts.fromToolRound(one.toolRound)}
              </span>
            </dd>
          </div>
        ))}
        {then.length > 0 && (
          <div>
            <dt>{texts.then}</dt>
            <dd>
              <span>{then.slice(0, MOST_THEN).join(", ")}</span>
              {then.length > MOST_THEN && <span className="dim">{texts.more(then.length - MOST_THEN)}</span>}
            </dd>
          </div>
        )}
        <div>
          <dt>{texts.kept}</dt>
          <dd>
            <span>
              {keptRounds > 0 && texts.keptRounds(keptRounds) + texts.comma}
              {texts.keptExecutions(kept)}
            </span>
            {keptCalls > 0 && <span className="dim">{texts.keptCalls(keptCalls)}</span>}
          </dd>
        </div>
      </dl>
      <p className="failed-help">{texts.sameKeys}</p>
    </section>
  );
}

function WorkflowChoice({ value, onChange }: { value: string; onChange: (name: string) => void }) {
  const texts = useMessages(messages);
  const found = useQuery({
    queryKey: ["workflows", "names"],
    queryFn: () => call<WorkflowList>("/workflows", { query: { limit: 200 } }),
  });
  const names = (found.data?.workflows ?? []).filter((one) => !one.draft).map((one) => one.name);
  return (
    <section className="failed-part">
      <SelectField
        label={texts.workflow}
        value={value}
        onChange={onChange}
        choices={[{ value: "", text: texts.asPinned }, ...[...new Set(names)].map((name) => ({ value: name, text: name }))]}
        help={texts.workflowHelp}
        error={found.error ? texts.workflowsFailed : undefined}
      />
    </section>
  );
}
