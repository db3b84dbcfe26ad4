// Where an answer would go: the server tries the edges of the node with it, without answering.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { call } from "../../../api/client";
import type { DrawnEdge, EdgePreview } from "../../../api/schema";
import { useMessages } from "../../../i18n/messages";
import type { Question } from "../../../live/run_model";
import { Icon } from "../../../ui/Icon";
import { useRunContext } from "../context";
import { conditionText, routesFrom, routesOf, targetOf, type Route } from "./answers";
import { messages } from "./messages";
import { TargetEffect } from "./QuestionMain";

const DEBOUNCE = 250;
/** The server tries shorter texts only. */
const LONGEST = 100_000;

export const previewKey = (runId: string, question: Question) => ["run", runId, "preview", question.address];

/** Where an answer goes. Simple conditions are decided at once; the server decides the others a moment later. */
export function useRoutes(
  question: Question,
  edges: readonly DrawnEdge[],
  text: string,
  data: Record<string, unknown> | null,
  isEnabled: boolean,
): Route[] {
  const { runId, plan } = useRunContext();
  const asked = useDebounced(JSON.stringify({ text, data }), DEBOUNCE);
  const preview = useQuery({
    queryKey: [...previewKey(runId, question), asked],
    queryFn: ({ signal }) =>
      call<EdgePreview[]>(`/runs/${runId}/answer/preview`, {
        body: { ...(JSON.parse(asked) as object), at: question.address },
        signal,
      }),
    enabled: isEnabled && text.length < LONGEST,
    placeholderData: keepPreviousData,
    staleTime: Infinity,
    // It only says ahead what sending does: without it, the page says what it knows itself.
    retry: false,
  });
  const isCurrent = asked === JSON.stringify({ text, data }) && !preview.isPlaceholderData;
  if (isCurrent && preview.data) return routesFrom(preview.data, edges, plan.drawing.nodes);
  const own = data === null ? routesOf(edges, text) : edges.map((edge) => ({ edge, isTaken: null }));
  if (own.every((route) => route.isTaken !== null) || !preview.data) return own;
  // Until the server has answered, what it said last stays: lines that come and go would make the page jump.
  return routesFrom(preview.data, edges, plan.drawing.nodes);
}

function useDebounced<T>(value: T, delay: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), delay);
    return () => clearTimeout(timer);
  }, [value, delay]);
  return settled;
}

export function Preview({ question, routes }: { question: Question; routes: readonly Route[] }) {
  const texts = useMessages(messages);
  const { plan } = useRunContext();
  const known = routes.filter((route) => route.isTaken !== null && conditionText(route.edge) !== "");
  if (known.length === 0) return null;
  const isNowhere = routes.every((route) => route.isTaken === false);
  // What happens stands before what does not.
  const sorted = known.toSorted((a, b) => Number(b.isTaken) - Number(a.isTaken));
  return (
    <ul className="people-preview" aria-live="polite">
      {isNowhere && (
        <li>
          <Icon name="warning" />
          <span>{texts.goesNowhere}</span>
        </li>
      )}
      {sorted.map(({ edge, isTaken }) => {
        const target = targetOf(edge, plan.drawing.nodes);
        const icon = target.effect === "leaves" ? "exit" : target.effect === "runs" ? "flow" : "loop";
        return (
          <li key={`${edge.target} ${edge.text}`} className={isTaken ? `people-taken people-${target.effect}` : "people-not-taken"}>
            <Icon name={icon} />
            <span>
              {isTaken ? (
                <TargetEffect target={target} question={question} />
              ) : (
                <>
                  {texts.notTo} {target.id}: <code>{conditionText(edge)}</code>
                </>
              )}
            </span>
          </li>
        );
      })}
    </ul>
  );
}
