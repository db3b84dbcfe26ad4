// The menu "more" of the editor's bar. Parts of the editor add their entries here.
import type { Language } from "../../../i18n/messages";
import type { IconName } from "../../../ui/Icon";
import { EXPORT_TEXTS, exportWorkflow, FORMATS } from "../../workflows/formats";
import type { EditorStore } from "../store";
import { suggestedName } from "./names";

export interface MenuAction {
  text: Readonly<Record<Language, string>>;
  icon: IconName;
  run: (store: EditorStore) => void;
  /** Whether it changes the text or the server; readers do not see it then. */
  isForAuthors?: boolean;
}

export const actions: readonly MenuAction[] = FORMATS.map((format) => ({
  text: EXPORT_TEXTS[format],
  icon: "download",
  run: ({ getState }) => {
    const { text, saved, lastGood } = getState();
    void exportWorkflow(format, saved?.name ?? suggestedName(lastGood.value, ""), text);
  },
}));
