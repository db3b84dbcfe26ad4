// A person is asked: the question, the draft that it is about, what was said before, and what each answer does.
import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import type { QuestionView } from "../../../api/schema";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { parseAddress } from "../../../live/address";
import { tokensOf, type Execution, type Question, type RunModel } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button, Segmented } from "../../../ui/Button";
import { countWords, looksLikeCode, WordDiff, wordDiff } from "../../../ui/diff/WordDiff";
import { Icon } from "../../../ui/Icon";
import { Failure, Loading } from "../../../ui/State";
import { proofOf, siblings, useRunContext } from "../context";
import { answerEdges, answerRules, withQuotation, type Target } from "./answers";
import { ApprovalMain } from "./ApprovalMain";
import { DeadlineFact } from "./Deadline";
import { useDraft } from "./drafts";
import { messages } from "./messages";
import { defaultOf, askerOf, roundStepOf, sourceOf, textOf, useQuestionView } from "./question";
import { NO_ANSWER } from "./QuestionSide";
import { useNow } from "../../../ui/useNow";
import "./people.css";

/** The middle of the page while a person is asked. A tool call that needs approval has a page of its own. */
export function QuestionMain({ question }: { question: Question }) {
  const key = `${question.address} ${question.asked}`;
  return question.tool === null ? (
    <HumanQuestion key={key} question={question} />
  ) : (
    <ApprovalMain key={key} question={question} />
  );
}

function HumanQuestion({ question }: { question: Question }) {
  const texts = useMessages(messages);
  const { runId, store, plan } = useRunContext();
  const execution = useRun(store, (model) => model.executions.get(question.address));
  const details = useQuestionView(runId, question);
  const key = execution?.key ?? "";
  const timeout = plan.drawing.edges.find((edge) => edge.source === key && edge.port === "timeout" && edge.triggers);
  const fallback = defaultOf(details.data);
  const then =
    question.deadline === null
      ? texts.thenWaits
      : fallback !== undefined
        ? texts.thenDefault(fallback)
        : timeout
          ? texts.thenPort(timeout.target)
          : texts.thenFails;
  return (
    <article className="people" aria-label={texts.question}>
      <QuestionHead question={question} icon="human" nodeId={execution?.node_id ?? question.address}>
        {texts.asks}
      </QuestionHead>
      <Facts question={question} then={then} />
      {details.data ? (
        <Draft question={question} view={details.data} />
      ) : details.error ? (
        <Failure error={details.error} onRetry={() => void details.refetch()} />
      ) : (
        details.isPending && <Loading lines={3} />
      )}
      <SaidSoFar />
      <WhatAnswersDo question={question} nodeKey={key} nodeId={execution?.node_id ?? key} />
    </article>
  );
}

/** Who asks, in which round, and what. */
export function QuestionHead({
  question,
  icon,
  nodeId,
  title = question.prompt,
  children,
}: {
  question: Question;
  icon: "human" | "agent";
  nodeId: string;
  title?: string;
  children: ReactNode;
}) {
  const texts = useMessages(messages);
  const { plan, store, select } = useRunContext();
  const questions = useRun(store, (model) => model.questions);
  const step = roundStepOf(askerOf(question));
  const limit = step === undefined ? null : (proofOf(plan, step.loop)?.worst_case_rounds ?? null);
  const others = questions.filter((one) => one.address !== question.address);
  return (
    <header className="people-head">
      <p className="people-who">
        <span className={`people-icon people-icon-${icon}`}>
          <Icon name={icon} />
        </span>
        <span>
          <strong>{nodeId}</strong> {children}
          {step !== undefined && texts.comma + texts.inRound(step.round, limit)}
        </span>
      </p>
      <h2>{title || texts.question}</h2>
      {others.length > 0 && (
        <p className="people-others">
          {texts.otherQuestions(others.length)}
          {others.slice(0, 5).map((one) => (
            <button key={one.address} type="button" className="people-link mono" onClick={() => select(one.address)}>
              {one.address}
            </button>
          ))}
        </p>
      )}
    </header>
  );
}

export function Facts({ question, then }: { question: Question; then: string }) {
  const texts = useMessages(messages);
  const { clock, ago } = useFormats();
  const now = useNow(10_000);
  return (
    <dl className="people-facts">
      <div>
        <dt>{texts.asked}</dt>
        <dd>{texts.askedAt(clock(question.asked), ago(question.asked, now))}</dd>
      </div>
      <div>
        <dt>{texts.deadline}</dt>
        <dd>{question.deadline === null ? texts.noDeadline : <DeadlineFact deadline={question.deadline} />}</dd>
      </div>
      <div>
        <dt>{texts.ifNobodyAnswers}</dt>
        <dd>{then}</dd>
      </div>
      <div>
        <dt>{texts.workTime}</dt>
        <dd>{texts.doesNotCount}</dd>
      </div>
    </dl>
  );
}

interface Earlier {
  round: number;
  text: string;
}

/** What the same node wrote in earlier rounds of the loop, the newest last. */
function earlierDrafts(model: RunModel, address: string, source: string): Earlier[] {
  const step = roundStepOf(address);
  if (step === undefined) return [];
  const found: Earlier[] = [];
  for (const round of siblings(model, step.address)) {
    if (round.number >= step.round) continue;
    for (const one of round.executions) {
      const execution = model.executions.get(one);
      if (execution?.node_id === source && execution.output !== undefined) {
        found.push({ round: round.number, text: execution.output });
      }
    }
  }
  return found;
}

function Draft({ question, view }: { question: Question; view: QuestionView }) {
  const texts = useMessages(messages);
  const { runId, store } = useRunContext();
  const seq = useRun(store, (model) => model.rounds.size);
  const last = view.inputs.at(-1);
  const text = last === undefined ? "" : textOf(last);
  const source = last === undefined ? "" : sourceOf(last);
  const earlier = useMemo(
    () => earlierDrafts(store.getState().model, question.address, source),
    // The rounds before a question do not change; a new round has a new question.
    [store, question.address, source, seq],
  );
  const [chosen, setChosen] = useState<"draft" | "diff" | null>(null);
  const [round, setRound] = useState<number | null>(null);
  const other = earlier.find((one) => one.round === round) ?? earlier.at(-1);
  const mode = other === undefined ? "draft" : (chosen ?? "diff");
  const box = useRef<HTMLDivElement>(null);
  const passage = useSelectionIn(box);
  const draft = useDraft("answer", runId, question.address, NO_ANSWER);
  const count = useMemo(() => countWords([{ kind: "added", text }]).added, [text]);
  const changed = useMemo(
    () => (other === undefined ? null : countWords(wordDiff(other.text, text))),
    [other, text],
  );
  if (last === undefined) return <p className="people-section people-help">{texts.noDraft}</p>;
  const step = roundStepOf(question.address);
  const isCode = looksLikeCode(text);
  return (
    <section className="people-section">
      <div className="people-section-head">
        <h3>{step === undefined ? texts.draft : texts.draftOfRound(step.round)}</h3>
        {source && <span className="dim">{texts.from(source)}</span>}
        {other !== undefined && (
          <div className="people-tools">
            <Segmented
              label={texts.view}
              choices={[
                { value: "draft", text: texts.draft },
                { value: "diff", text: texts.wordDiff },
              ]}
              value={mode}
              onChange={setChosen}
            />
            {mode === "diff" && (
              <label>
                <span className="dim">{texts.comparedWith}</span>
                <select
                  className="input people-select"
                  aria-label={texts.compareWith}
                  value={other.round}
                  onChange={(event) => setRound(Number(event.target.value))}
                >
                  {earlier.toReversed().map((one) => (
                    <option key={one.round} value={one.round}>
                      {texts.round(one.round)}
                    </option>
                  ))}
                </select>
              </label>
            )}
          </div>
        )}
      </div>
      <div ref={box} className={`people-text ${isCode ? "mono" : ""}`} tabIndex={0} role="region" aria-label={texts.draft}>
        {mode === "diff" && other !== undefined ? (
          <WordDiff before={other.text} after={text} kind={isCode ? "lines" : "words"} />
        ) : (
          text
        )}
      </div>
      <p className="people-under">
        {mode === "diff" && changed !== null && (
          <span>
            <ins>{texts.addedWords(changed.added)}</ins> <del>{texts.removedWords(changed.removed)}</del>
          </span>
        )}
        <span>{texts.words(count)}</span>
        {view.inputs.length > 1 && <span>{texts.otherInputs(view.inputs.length - 1)}</span>}
        {passage ? (
          <Button
            kind="quiet"
            className="people-quote"
            // The selection must survive the click.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => draft.change({ text: withQuotation(draft.value.text, passage) })}
          >
            {texts.quote}
          </Button>
        ) : (
          <span>{texts.selectToQuote}</span>
        )}
      </p>
      {view.inputs.length > 1 && (
        <ul className="people-inputs">
          {view.inputs.slice(0, -1).map((message, index) => (
            <li key={index}>
              <span className="dim">{sourceOf(message)}</span>
              <span>{textOf(message)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** The text that is selected inside an element; empty if there is none. */
function useSelectionIn(ref: React.RefObject<HTMLElement | null>): string {
  const [text, setText] = useState("");
  useEffect(() => {
    const look = () => {
      const selection = document.getSelection();
      const inside = selection?.anchorNode && ref.current?.contains(selection.anchorNode);
      setText(inside ? selection.toString().trim() : "");
    };
    document.addEventListener("selectionchange", look);
    return () => document.removeEventListener("selectionchange", look);
  }, [ref]);
  return text;
}

const FIRST_SAID = 8;

function SaidSoFar() {
  const texts = useMessages(messages);
  const { store, plan, select } = useRunContext();
  const { clock, duration } = useFormats();
  // While a question is open, little happens; a new list is made only when an execution begins or ends.
  useRun(store, (model) => `${model.sequence.length} ${model.active.size}`);
  const [isOpen, setOpen] = useState(false);
  const { model } = store.getState();
  const said: Execution[] = [];
  for (const address of model.sequence) {
    const execution = model.executions.get(address);
    if (execution?.output !== undefined && plan.speakers.includes(execution.node_id)) said.push(execution);
  }
  const shown = isOpen ? said : said.slice(-FIRST_SAID);
  return (
    <section className="people-section" aria-label={texts.saidSoFar}>
      <div className="people-section-head">
        <h3>{texts.saidSoFar}</h3>
        {shown.length < said.length && (
          <Button kind="quiet" className="people-end" onClick={() => setOpen(true)}>
            {texts.showAll(said.length + 1)}
          </Button>
        )}
      </div>
      <ol className="people-said">
        <li>
          <span className="people-said-who">{texts.input}</span>
          <span className="people-said-text">{model.input}</span>
          <span className="dim">{clock(model.started)}</span>
        </li>
        {shown.map((execution) => {
          const waited = execution.answer === undefined ? 0 : ((execution.ended ?? 0) - execution.started) / 1000;
          return (
            <li key={execution.address}>
              <button type="button" className="people-said-who people-link" onClick={() => select(execution.address)}>
                {shortName(execution)}
              </button>
              <span className="people-said-text">{execution.output}</span>
              <span className="dim">
                {clock(execution.ended ?? execution.started)}
                {waited >= 1 && texts.comma + texts.after(duration(Math.round(waited)))}
              </span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

/** `Writer[2]` for the second round of the innermost loop. */
function shortName(execution: Execution): string {
  const step = parseAddress(execution.address).rounds.at(-1);
  return step === undefined ? execution.node_id : `${execution.node_id}[${step.round}]`;
}

function WhatAnswersDo({ question, nodeKey, nodeId }: { question: Question; nodeKey: string; nodeId: string }) {
  const texts = useMessages(messages);
  const { plan, store } = useRunContext();
  const { number } = useFormats();
  const rules = useMemo(
    () => answerRules(answerEdges(plan.drawing.edges, nodeKey), plan.drawing.nodes),
    [plan, nodeKey],
  );
  const step = roundStepOf(question.address);
  const tokens = useRun(store, (model) => tokensOf(model.rounds.get(step?.address ?? "")?.usage));
  return (
    <section className="people-section" aria-label={texts.whatAnswersDo}>
      <div className="people-section-head">
        <h3>{texts.whatAnswersDo}</h3>
        <span className="dim">{texts.fromEdges(nodeId)}</span>
      </div>
      {rules.length === 0 ? (
        <p className="people-help">{texts.noEdges}</p>
      ) : (
        <ul className="people-rules">
          {rules.map((rule) => (
            <li key={rule.condition}>
              {rule.condition ? <code>{rule.condition}</code> : <span>{texts.everyAnswer}</span>}
              <span>
                {rule.targets.map((target, index) => (
                  <span key={target.key}>
                    {index > 0 && texts.comma}
                    <TargetEffect target={target} question={question} />
                  </span>
                ))}
              </span>
              <span className="dim">
                {rule.targets.some((target) => target.effect === "round")
                  ? tokens > 0 && texts.lastRoundTook(number(tokens))
                  : rule.targets.some((target) => target.effect === "leaves") && texts.noMoreRounds}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** What a node does with an answer. */
export function TargetEffect({ target, question }: { target: Target; question: Question }) {
  return (
    <>
      <strong>{target.id}</strong> <EffectText target={target} question={question} />
    </>
  );
}

function EffectText({ target, question }: { target: Target; question: Question }) {
  const texts = useMessages(messages);
  const { plan, store } = useRunContext();
  const counted = useRun(store, (model) => {
    const address = model.nodes.get(target.key)?.address;
    return address === undefined ? undefined : model.executions.get(address)?.report;
  });
  switch (target.effect) {
    case "leaves":
      return texts.effectLeaves;
    case "runs":
      return texts.effectRuns;
    case "keeps":
      return texts.effectKeeps;
    case "round": {
      // An edge back may lead to a loop further out: its entry is the name of the loop.
      const steps = parseAddress(question.address).rounds;
      const step = steps.findLast((one) => one.loop === target.id) ?? steps.at(-1);
      const limit = step === undefined ? null : (proofOf(plan, step.loop)?.worst_case_rounds ?? null);
      return texts.effectRound((step?.round ?? 0) + 1, limit);
    }
    case "counts": {
      const count = typeof counted?.count === "number" ? counted.count : 0;
      const limit = counted?.max_iterations;
      return typeof limit === "number" ? texts.effectCountsTo(count + 1, limit) : texts.effectCounts;
    }
  }
}
