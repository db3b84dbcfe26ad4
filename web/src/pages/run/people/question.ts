// What is known about a question: its details on the server, and what became of it.
import { useQuery } from "@tanstack/react-query";
import { call } from "../../../api/client";
import type { Message, QuestionView } from "../../../api/schema";
import { parseAddress } from "../../../live/address";
import type { Execution, Question, RunModel } from "../../../live/run_model";

/** The question with the messages that it is about. Only the server has them in full. */
export function useQuestionView(runId: string, question: Question) {
  return useQuery({
    // The same address may ask again after a retry.
    queryKey: ["run", runId, "questions", question.address, question.asked],
    queryFn: async () => {
      const all = await call<QuestionView[]>(`/runs/${runId}/questions`);
      return all.find((one) => one.address === question.address) ?? null;
    },
  });
}

/** The default answer of a question as text; undefined if there is none, or it is not known yet. */
export function defaultOf(view: QuestionView | null | undefined): string | undefined {
  const found = view?.default;
  if (found === null || found === undefined) return undefined;
  return typeof found === "string" ? `“${found}”` : JSON.stringify(found);
}

/** The text of a message; of blocks that are no text, their type. */
export function textOf(message: Message): string {
  const { content } = message;
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : `[${block.type}]`)).join("\n");
}

export function sourceOf(message: Message): string {
  const source = message.metadata?.source;
  return typeof source === "string" ? source : "";
}

/** The address of the execution that asks: the agent, for a tool call. */
export function askerOf(question: Pick<Question, "caller">): string {
  return question.caller;
}

/** The execution that made the tool call at an address. */
function callerAt(model: RunModel, address: string): Execution | undefined {
  return [...model.executions.values()].find((one) => one.tools.some((tool) => tool.address === address));
}

/** The address of the execution that asked at an address, also when the question is over. */
export function askerAt(model: RunModel, address: string): string {
  return callerAt(model, address)?.address ?? address;
}

/** The innermost round around an execution. */
export function roundStepOf(address: string) {
  return parseAddress(address).rounds.at(-1);
}

export type Outcome =
  | { kind: "open" }
  | { kind: "answered"; text: string }
  | { kind: "approved" }
  | { kind: "rejected"; text: string }
  | { kind: "deadline"; text: string }
  | { kind: "ended" };

/** What became of a question. */
export function outcomeOf(model: RunModel, address: string): Outcome {
  if (model.questions.some((question) => question.address === address)) return { kind: "open" };
  const execution = model.executions.get(address);
  if (execution === undefined) {
    const tool = callerAt(model, address)?.tools.find((one) => one.address === address);
    if (tool?.status === "rejected") return { kind: "rejected", text: String(tool.result ?? "") };
    if (tool !== undefined && tool.status !== "waiting") return { kind: "approved" };
    return { kind: "ended" };
  }
  if (execution.answer !== undefined) return { kind: "answered", text: execution.answer };
  if (execution.status === "skipped") return { kind: "ended" };
  return { kind: "deadline", text: execution.output ?? execution.error ?? "" };
}
