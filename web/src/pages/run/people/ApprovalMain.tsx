// A tool call waits for approval: what the agent did before, and the arguments, which can be changed.
import { toolRoundOf } from "../../../live/address";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { Execution, Question, RunModel, ToolCall } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Icon } from "../../../ui/Icon";
import { useRunContext } from "../context";
import { callText } from "./approval";
import { ArgumentEditor } from "./ArgumentEditor";
import { messages } from "./messages";
import { askerOf } from "./question";
import { Facts, QuestionHead } from "./QuestionMain";
import "./people.css";

export function ApprovalMain({ question }: { question: Question }) {
  const texts = useMessages(messages);
  const { runId, store, mayControl } = useRunContext();
  const execution = useRun(store, (model) => model.executions.get(askerOf(question)));
  const tool = question.tool?.name ?? "";
  const toolRound = toolRoundOf(question.address);
  return (
    <article className="people" aria-label={texts.question}>
      <div className="people-columns">
        <div className="people-context">
          <QuestionHead
            question={question}
            icon="agent"
            nodeId={execution?.node_id ?? askerOf(question)}
            title={texts.callTool(tool)}
          >
            {texts.wantsToCall(toolRound)}
          </QuestionHead>
          {execution?.streamed && <blockquote className="people-section people-model">{execution.streamed}</blockquote>}
          <Facts question={question} then={question.deadline === null ? texts.thenWaits : texts.thenRejected} />
        </div>
        <ArgumentEditor question={question} runId={runId} isReadOnly={!mayControl} />
        <div className="people-history">
          {execution !== undefined && <Calls execution={execution} question={question} toolRound={toolRound} />}
          <EarlierCalls question={question} tool={tool} />
        </div>
      </div>
    </article>
  );
}

function Calls({ execution, question, toolRound }: { execution: Execution; question: Question; toolRound: number }) {
  const texts = useMessages(messages);
  const before = execution.tools.filter((call) => call.round < toolRound);
  const same = execution.tools.filter((call) => call.round === toolRound && call.address !== question.address);
  return (
    <>
      <section className="people-section" aria-label={texts.beforeThisCall}>
        <div className="people-section-head">
          <h3>{texts.beforeThisCall}</h3>
          <span className="dim">{texts.inThisRound}</span>
        </div>
        {before.length === 0 && <p className="people-help">{texts.nothingBefore}</p>}
        <ul className="people-calls">
          {before.map((call) => (
            <li key={call.address}>
              <CallHead call={call} />
              <CallResult call={call} />
            </li>
          ))}
        </ul>
      </section>
      {same.length > 0 && (
        <section className="people-section" aria-label={texts.inSameReply}>
          <div className="people-section-head">
            <h3>{texts.inSameReply}</h3>
            <span className="dim">{texts.decidedOneByOne(same.length)}</span>
          </div>
          <ul className="people-same">
            <li className="people-same-open">
              <Icon name="right" />
              <code>{callText(question.tool?.name ?? "", question.tool?.arguments, 60)}</code>
              <span>{texts.open}</span>
            </li>
            {same.map((call) => (
              <li key={call.address}>
                <Icon name={call.status === "completed" ? "check" : "tool"} />
                <code>{callText(call.name, call.arguments, 60)}</code>
                <span className="dim">{texts.callStatus(call.status)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

/** A call with its status and how long it took. */
export function CallHead({ call }: { call: ToolCall }) {
  const texts = useMessages(messages);
  const { duration } = useFormats();
  return (
    <div className="people-call-head">
      <Icon name="tool" />
      <code title={callText(call.name, call.arguments, 2000)}>{callText(call.name, call.arguments)}</code>
      <span className={`people-chip people-chip-${call.status}`}>{texts.callStatus(call.status)}</span>
      {call.ended !== null && <span className="dim">{duration((call.ended - call.started) / 1000)}</span>}
    </div>
  );
}

export function CallResult({ call }: { call: ToolCall }) {
  if (call.result === undefined || call.result === null || call.result === "") return null;
  const text = typeof call.result === "string" ? call.result : JSON.stringify(call.result, null, 2);
  return (
    <pre className="people-call-result" tabIndex={0}>
      {text}
    </pre>
  );
}

function earlierCalls(model: RunModel, tool: string, question: Question): ToolCall[] {
  const calls: ToolCall[] = [];
  for (const address of model.sequence) {
    if (address === askerOf(question)) continue;
    for (const call of model.executions.get(address)?.tools ?? []) if (call.name === tool) calls.push(call);
  }
  return calls;
}

const MOST_EARLIER = 5;

function EarlierCalls({ question, tool }: { question: Question; tool: string }) {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  const { clock } = useFormats();
  useRun(store, (model) => model.sequence.length);
  const calls = earlierCalls(store.getState().model, tool, question).slice(-MOST_EARLIER);
  if (calls.length === 0) return null;
  return (
    <section className="people-section" aria-label={texts.earlierCalls(tool)}>
      <div className="people-section-head">
        <h3>{texts.earlierCalls(tool)}</h3>
        <span className="dim">{texts.inThisRun}</span>
      </div>
      <ul className="people-said">
        {calls.map((call) => (
          <li key={call.address}>
            <span className="dim">{clock(call.started)}</span>
            <span className="people-said-text">
              {texts.callStatus(call.status)}: {String(call.result ?? "")}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
