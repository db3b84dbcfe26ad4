// What the run asks, with a field for the answer.
import { useMemo, useState } from "react";
import { useMessages } from "../../../i18n/messages";
import type { Question, RunModel } from "../../../live/run_model";
import { Button } from "../../../ui/Button";
import { TextArea } from "../../../ui/Field";
import { Later, later } from "../../../ui/later";
import { answerEdges, quickAnswers } from "../../run/people/answers";
import { useSendAnswer } from "../../run/people/useSendAnswer";
import { useEditor } from "../store";
import { messages } from "./messages";

// Few workflows have tools that need an approval.
const Approval = later(() => import("./Approval"));

export function Questions({ run, model }: { run: string; model: RunModel }) {
  return model.questions.map((question) => {
    // The same address may ask again: nothing of the answer before may remain.
    const key = `${question.address} ${question.asked}`;
    if (question.tool === null) return <Ask key={key} run={run} model={model} question={question} />;
    return (
      <Later key={key}>
        <Approval run={run} model={model} question={question} />
      </Later>
    );
  });
}

function Ask({ run, model, question }: { run: string; model: RunModel; question: Question }) {
  const texts = useMessages(messages);
  const [text, setText] = useState("");
  const sending = useSendAnswer(run, question.address);
  const asker = model.executions.get(question.address);
  const key = asker?.key ?? "";
  const drawing = useEditor((values) => values.drawing);
  const quick = useMemo(
    () => (drawing === null ? [] : quickAnswers(answerEdges(drawing.edges, key), drawing.nodes, [])),
    [drawing, key],
  );
  const send = (answer: string) => {
    if (answer !== "" && sending.status === "idle") void sending.send({ text: answer, at: question.address });
  };
  return (
    <form
      className="try-question"
      onSubmit={(event) => {
        event.preventDefault();
        send(text);
      }}
    >
      {question.prompt && <p className="try-prompt">{question.prompt}</p>}
      <TextArea
        label={texts.answer(asker?.node_id ?? question.address)}
        rows={2}
        autoFocus
        value={text}
        onChange={setText}
        error={sending.error?.message}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          event.stopPropagation();
          send(text);
        }}
      />
      <div className="try-answers">
        <Button type="submit" kind="primary" hint="Ctrl Enter" isBusy={sending.status !== "idle"} disabled={text === ""}>
          {texts.send}
        </Button>
        {quick.map((one) => (
          <Button key={one.text} onClick={() => setText(one.text)}>
            {one.text}
          </Button>
        ))}
      </div>
    </form>
  );
}
