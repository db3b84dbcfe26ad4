// Reads the text of an editor. A text that opens thousands of brackets would keep the parser busy for seconds, and no
// workflow nests like that: it is not parsed, and says why.
import type { WorkflowDocument } from "../../document/model";
import { readDocument } from "../../document/read";
import { messagesNow } from "../../i18n/messages";
import { messages } from "./messages";

/** How deep brackets may be nested. */
export const MOST_BRACKETS = 200;

/** Where the text nests brackets too deeply; -1 if it does not. Brackets in strings count as well: a guess is enough. */
export function tooDeepAt(text: string): number {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x5b || code === 0x7b) {
      if (++depth > MOST_BRACKETS) return at;
    } else if ((code === 0x5d || code === 0x7d) && depth > 0) depth--;
  }
  return -1;
}

export function readText(text: string): WorkflowDocument {
  const deep = tooDeepAt(text);
  if (deep < 0) return readDocument(text);
  const message = messagesNow(messages).tooDeep(MOST_BRACKETS);
  return { ...readDocument(""), text, errors: [{ from: deep, to: deep + 1, message }], value: undefined };
}
