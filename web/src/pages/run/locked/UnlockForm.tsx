// The form: go on or leave the loop, what to change, why, and three self-checks.
import { useRef, useState, type ReactNode } from "react";
import { tokensOf } from "../../../live/run_model";
import { call } from "../../../api/client";
import { keys, queryClient, useMe } from "../../../api/queries";
import type { RunView } from "../../../api/schema";
import { useKeys } from "../../../app/keys";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { useRun } from "../../../live/useRunEvents";
import { Button, Segmented } from "../../../ui/Button";
import { CheckField } from "../../../ui/Field";
import { Icon, type IconName } from "../../../ui/Icon";
import { WordDiff } from "../../../ui/diff/WordDiff";
import { Loading } from "../../../ui/State";
import { useRunContext } from "../context";
import {
  CHECKS,
  draftKey,
  editedMessage,
  EMPTY_DRAFT,
  missing,
  raisedLimit,
  unlockBody,
  useUnlockDrafts,
  type Check,
  type MissingField,
  type UnlockDraft,
} from "./draft";
import { figure, isBudget, roundsFor, type RaisableLimit } from "./limits";
import { messages } from "./messages";
import type { LockFacts } from "./useLockFacts";
import { amount, unitOf } from "./words";

interface Part {
  facts: LockFacts;
  draft: UnlockDraft;
  change: (change: Partial<UnlockDraft>) => void;
}

export function UnlockForm({ facts }: { facts: LockFacts }) {
  const texts = useMessages(messages);
  const { runId, mayControl } = useRunContext();
  const key = draftKey(runId, facts.lock.seq);
  const stored = useUnlockDrafts((state) => state.drafts[key]) ?? EMPTY_DRAFT;
  // With one exit there is nothing to choose.
  const only = facts.exits.length === 1 ? (facts.exits[0] ?? "") : "";
  const draft = stored.exit || !only ? stored : { ...stored, exit: only };
  const change = (changes: Partial<UnlockDraft>) => useUnlockDrafts.getState().change(key, changes);
  const form = useRef<HTMLFormElement>(null);
  const part = { facts, draft, change };
  const isLeaving = draft.mode === "leave";
  return (
    <form ref={form} className="locked-side" aria-labelledby="locked-side-title" onSubmit={(event) => event.preventDefault()}>
      <header className="locked-side-head">
        <h2 id="locked-side-title">{texts.unlock}</h2>
        {facts.exits.length > 0 && mayControl && (
          <Segmented
            label={texts.how}
            value={draft.mode}
            onChange={(mode) => change({ mode })}
            choices={[
              { value: "on", text: texts.goOn },
              { value: "leave", text: texts.leave },
            ]}
          />
        )}
      </header>
      {!mayControl ? (
        <p className="locked-side-body locked-may-not">{texts.mayNot}</p>
      ) : facts.state === undefined && !facts.stateError ? (
        <Loading lines={8} />
      ) : (
        <>
          <div className="locked-side-body">
            {isLeaving ? <ExitChoice {...part} /> : <MessageField {...part} />}
            <NoteField {...part} />
            {!isLeaving && <LimitField {...part} />}
            <ReasonField {...part} />
            <Checks {...part} />
          </div>
          <Foot {...part} draftKey={key} form={form} />
        </>
      )}
    </form>
  );
}

function Section({ icon, title, aside, field, children }: { icon?: IconName; title: ReactNode; aside?: ReactNode; field?: MissingField; children?: ReactNode }) {
  return (
    <div className="locked-section" data-field={field}>
      <div className="locked-section-head">
        {icon && <Icon name={icon} />}
        {title}
        {aside && <span className="locked-section-aside">{aside}</span>}
      </div>
      {children}
    </div>
  );
}

function MessageField({ facts, draft, change }: Part) {
  const texts = useMessages(messages);
  const { next } = facts;
  if (next === null) return <Section icon="edit" title={<span>{texts.noMessage}</span>} />;
  const before = next.message.text;
  const isEdited = editedMessage(draft, facts) !== null;
  return (
    <Section
      icon="edit"
      field="message"
      title={<label htmlFor="locked-message">{texts.messageFor(next.node)}</label>}
      aside={
        isEdited && (
          <>
            <span className="locked-tag">{texts.edited}</span>
            <Button kind="quiet" icon="retry" aria-label={texts.takeBack} title={texts.takeBack} onClick={() => change({ message: null })} />
          </>
        )
      }
    >
      <textarea
        id="locked-message"
        className="input"
        rows={2}
        value={draft.message ?? before}
        onChange={(event) => change({ message: event.target.value })}
      />
      {isEdited && (
        <div className="locked-was">
          <span className="dim">{texts.was}</span> {before ? <WordDiff before={before} after={draft.message ?? before} /> : texts.wasEmpty}
        </div>
      )}
    </Section>
  );
}

function ExitChoice({ facts, draft, change }: Part) {
  const texts = useMessages(messages);
  const { store, plan } = useRunContext();
  const stem = facts.round?.stem ?? "";
  const last = useRun(store, (model) => {
    const addresses = model.loops.get(stem)?.rounds.flatMap((round) => round.executions) ?? [];
    const said = addresses.findLast((address) => {
      const execution = model.executions.get(address);
      return execution?.output !== undefined && plan.speakers.includes(execution.node_id);
    });
    return model.executions.get(said ?? "");
  });
  const gets = last?.output === undefined ? texts.exitGetsLast : texts.exitGets(short(last.output), last.node_id);
  return (
    <fieldset className="locked-section" data-field="exit">
      <legend>{texts.exitNode}</legend>
      {facts.exits.map((exit) => {
        const waiting = facts.state?.queues.find((queue) => queue.node_id === exit)?.messages.length ?? 0;
        return (
          <div key={exit} className="check">
            <input
              id={`locked-exit-${exit}`}
              type="radio"
              name="locked-exit"
              checked={draft.exit === exit}
              aria-describedby={`locked-exit-${exit}-help`}
              onChange={() => change({ exit })}
            />
            <div>
              <label htmlFor={`locked-exit-${exit}`}>{exit}</label>
              <p className="field-help" id={`locked-exit-${exit}-help`}>
                {gets}
                {waiting > 0 && `; ${texts.exitWaits(waiting)}`}
              </p>
            </div>
          </div>
        );
      })}
      <p className="field-help">{texts.onlyExits}</p>
    </fieldset>
  );
}

function NoteField({ draft, change }: Part) {
  const texts = useMessages(messages);
  if (draft.note === null) {
    return (
      <Section
        icon="note"
        title={<span>{texts.note}</span>}
        aside={
          <Button kind="quiet" icon="plus" onClick={() => change({ note: "" })} aria-label={`${texts.add}: ${texts.note}`}>
            {texts.add}
          </Button>
        }
      />
    );
  }
  return (
    <Section
      icon="note"
      title={<label htmlFor="locked-note">{texts.note}</label>}
      aside={<Button kind="quiet" icon="close" aria-label={`${texts.remove}: ${texts.note}`} onClick={() => change({ note: null })} />}
    >
      <textarea
        id="locked-note"
        className="input"
        rows={2}
        // It appears because somebody asked for it, to type in it.
        autoFocus={draft.note === ""}
        value={draft.note}
        aria-describedby="locked-note-help"
        onChange={(event) => change({ note: event.target.value })}
      />
      <p className="field-help" id="locked-note-help">
        {texts.noteHelp}
      </p>
    </Section>
  );
}

function LimitField({ facts, draft, change }: Part) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { limit, lock } = facts;
  if (limit === null) {
    const left = facts.roundsLeft === null ? "" : `, ${texts.roundsLeft(facts.roundsLeft)}`;
    return <Section icon="raise" title={<span>{texts.raise}</span>} aside={<span className="dim">{texts.noLimitMet + left}</span>} />;
  }
  const unit = unitOf(texts, limit.name);
  const scope = String(lock.data.scope ?? (limit.name === "rounds" ? (facts.round?.loop ?? "") : ""));
  return (
    <Section icon="raise" title={<span>{texts.raise}</span>} aside={<span className="dim">{texts.raiseNow(unit, scope)}</span>} field="limit">
      <div className="locked-raise">
        <output className="input" aria-label={texts.now}>
          {formats.decimal(limit.current)}
        </output>
        <Icon name="right" />
        <input
          className="input"
          inputMode="decimal"
          aria-label={texts.raiseTo(unit)}
          aria-describedby="locked-raise-help"
          value={draft.limit ?? formats.decimal(limit.suggestion)}
          onChange={(event) => change({ limit: event.target.value })}
        />
      </div>
      <p className="field-help" id="locked-raise-help">
        <LimitHelp facts={facts} draft={draft} limit={limit} />
      </p>
    </Section>
  );
}

function LimitHelp({ facts, draft, limit }: { facts: LockFacts; draft: UnlockDraft; limit: RaisableLimit }): string {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { what, data } = facts.lock;
  if (what === "tokens_per_call") return texts.callNeeds(amount(texts, formats, what, limit.need ?? 0));
  if (isBudget(what)) {
    const show = (value: number) => amount(texts, formats, what, value);
    const spent = figure(data.spent) + figure(data.reserved);
    const would = texts.wouldDo(show(spent), show(figure(data.wanted)), show(limit.need ?? 0));
    const raised = raisedLimit(draft, facts);
    const done = facts.rounds.filter((round) => round.tokens > 0).length;
    const lasts = raised === null || !(raised > limit.current) ? null : roundsFor(raised, spent, done);
    return lasts === null ? would : `${would} ${texts.lasts(lasts)}`;
  }
  return limit.name === "rounds" ? texts.asManyAgain(limit.current) : texts.clearToKeep;
}

function ReasonField({ draft, change }: Part) {
  const texts = useMessages(messages);
  return (
    <div className="locked-section" data-field="reason">
      <div className="locked-section-head">
        <label htmlFor="locked-reason">{texts.reason}</label>
        <span className="dim">{texts.reasonAside}</span>
      </div>
      <textarea
        id="locked-reason"
        className="input"
        rows={1}
        maxLength={2000}
        value={draft.reason}
        onChange={(event) => change({ reason: event.target.value })}
      />
    </div>
  );
}

function Checks({ facts, draft, change }: Part) {
  const texts = useMessages(messages);
  const help = useCheckHelp(facts, draft);
  return (
    <fieldset className="locked-section" data-field="checks">
      <legend>{texts.checks}</legend>
      {CHECKS.map((check) => (
        <CheckField
          key={check}
          label={texts[`check.${check}`]}
          help={help[check]}
          checked={draft.checks.includes(check)}
          onChange={(isChecked) => change({ checks: CHECKS.filter((one) => (one === check ? isChecked : draft.checks.includes(one))) })}
        />
      ))}
    </fieldset>
  );
}

/** What a person confirms, in figures of this run. */
function useCheckHelp(facts: LockFacts, draft: UnlockDraft): Record<Check, string> {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store, plan } = useRunContext();
  const usage = useRun(store, (model) => model.usage);
  const { lock, round, rounds, roundsLeft } = facts;
  const last = rounds.filter((one) => one.tokens > 0).slice(-3);
  const mean = (sum: number) => sum / Math.max(1, last.length);
  const tokens = mean(last.reduce((sum, one) => sum + one.tokens, 0));
  const costs = last.flatMap((one) => (one.cost_usd === null ? [] : [one.cost_usd]));
  const cost = costs.length ? formats.cost(costs.reduce((sum, one) => sum + one, 0) / costs.length) : "";
  const soFar = texts.costSoFar(formats.number(tokensOf(usage)), usage.cost_usd === null ? "" : formats.cost(usage.cost_usd));
  const proof = plan.loops.find((one) => one.id === round?.loop);
  const guards = (proof?.bounded_by ?? []).map((one) => texts.guard(String(one.limit), one.guard));
  return {
    cause_understood: lock.what === "dead_loop" ? texts.causeRepeats : lock.what === "manual" ? texts.causePerson : texts.causeFigures,
    cost_accepted:
      draft.mode === "leave"
        ? `${soFar} ${texts.costLeave}`
        : last.length
          ? texts.costRound(formats.number(tokens), cost) + (roundsLeft === null || lock.what === "rounds" ? "." : texts.roundsAtMost(roundsLeft))
          : soFar,
    workflow_reviewed: round === undefined ? `${plan.workflow}.` : texts.reviewed(plan.workflow, guards),
  };
}

function Foot({ facts, draft, draftKey: key, form }: Part & { draftKey: string; form: React.RefObject<HTMLFormElement | null> }) {
  const texts = useMessages(messages);
  const { runId, select } = useRunContext();
  const me = useMe();
  const [isSending, setSending] = useState(false);
  const [refused, setRefused] = useState("");
  const lacks = missing(draft, facts);
  const number = facts.round?.round;
  const isLeaving = draft.mode === "leave";
  const go = (field: MissingField) => {
    const name = field === "change" ? (facts.next === null ? "limit" : "message") : field;
    const place = form.current?.querySelector(`[data-field="${name}"]`);
    place?.querySelector<HTMLElement>("textarea, input:not(:checked)")?.focus();
  };
  const submit = async () => {
    const [first] = lacks;
    if (first !== undefined) return go(first);
    if (isSending) return;
    setSending(true);
    setRefused("");
    useUnlockDrafts.getState().send(key);
    try {
      const view = await call<RunView>(`/runs/${runId}/unlock`, { body: unlockBody(draft, facts) });
      queryClient.setQueryData(keys.run(runId), view);
      useUnlockDrafts.getState().discard(key);
      select("");
    } catch (error) {
      // If somebody else has unlocked it meanwhile, the events say so, and the form gives way to their reason.
      setRefused(error instanceof Error ? error.message : String(error));
      setSending(false);
    }
    useUnlockDrafts.getState().send("");
  };
  const text = isLeaving ? texts.buttonLeave(draft.exit) : number === undefined ? texts.buttonPlain : texts.button(number);
  useKeys([{ keys: "Ctrl Enter", text, action: () => void submit() }]);
  const name = me.data?.name ?? "";
  return (
    <footer className="locked-side-foot">
      <Button
        kind="locked"
        className="locked-wide"
        icon={isLeaving ? "exit" : lacks.length > 0 ? "lock" : "unlock"}
        hint="Ctrl ↵"
        aria-keyshortcuts="Control+Enter"
        isBusy={isSending}
        aria-disabled={lacks.length > 0}
        aria-describedby="locked-foot-text"
        onClick={() => void submit()}
      >
        {isSending ? texts.unlocking : text}
      </Button>
      <div className="locked-foot-text" id="locked-foot-text">
        {refused && (
          <p className="field-error" role="alert">
            {refused}
          </p>
        )}
        {lacks.length > 0 ? (
          <ul className="locked-missing" aria-label={texts.missing}>
            {lacks.map((field) => (
              <li key={field}>
                <Icon name="close" size={14} />
                <button type="button" className="locked-link" onClick={() => go(field)}>
                  {field === "checks" ? texts.missingChecks(CHECKS.length - draft.checks.length) : texts[`missing.${field}`]}
                </button>
              </li>
            ))}
          </ul>
        ) : (
          <p className="field-help">{number === undefined ? texts.signedPlain(name) : texts.signed(number, name)}</p>
        )}
      </div>
    </footer>
  );
}

function short(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 90 ? `${line.slice(0, 89)}…` : line;
}
