// What the fields show: what somebody has typed, else what the page suggests.
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import { useMessages } from "../../../i18n/messages";
import { useTemplates } from "../../workflows/templates";
import { useEditor } from "../store";
import type { Given } from "./actions";
import { messages } from "./messages";
import { suggestedScript } from "./script";
import { useTrying } from "./store";

export function useGiven(): Given {
  const texts = useMessages(messages);
  const document = useEditor((values) => values.lastGood);
  const drawing = useEditor((values) => values.drawing);
  const typedInput = useTrying((trying) => trying.input);
  const typedScript = useTrying((trying) => trying.script);
  const template = useTemplate();
  return useMemo(() => {
    const words = { head: texts.scriptHead, people: texts.scriptPeople, reply: texts.reply };
    return {
      input: typedInput ?? template?.input ?? "",
      script: typedScript ?? template?.script ?? suggestedScript(document, drawing, words),
    };
  }, [typedInput, typedScript, template, document, drawing, texts]);
}

/** The example that the workflow began as, or still is. */
function useTemplate() {
  const [query] = useSearchParams();
  const named = query.get("template");
  const saved = useEditor((values) => values.saved?.text);
  const templates = useTemplates();
  return templates.data?.templates.find((one) => one.name === named || one.text === saved);
}
