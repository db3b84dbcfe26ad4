// Texts in two languages. Each page has a catalogue of its own; the type of the second language is that of
// the first, so a text that is missing, or takes other values, does not compile.
import { create } from "zustand";
import { keep, readKept } from "../ui/kept";

export type Language = "en" | "zh";

type Text = string | ((...values: never[]) => string);
type Texts = { readonly [key: string]: Text };
/** The same keys with the same values; the words may differ. */
type Same<T extends Texts> = { readonly [K in keyof T]: T[K] extends string ? string : T[K] };

export interface Catalogue<T extends Texts> {
  en: T;
  zh: Same<T>;
}

export function catalogue<const T extends Texts>(en: T, zh: Same<T>): Catalogue<T> {
  return { en, zh };
}

export const LANGUAGES: Record<Language, string> = { en: "English", zh: "中文" };
const KEY = "roundel.language";

function stored(): Language {
  return (readKept("browser", KEY) || navigator.language).startsWith("zh") ? "zh" : "en";
}

export const useLanguage = create<{ language: Language; choose: (language: Language) => void }>((set) => ({
  language: stored(),
  choose: (language) => {
    keep("browser", KEY, language);
    document.documentElement.lang = language;
    set({ language });
  },
}));

/** The texts of a catalogue in the language that is chosen. */
export function useMessages<T extends Texts>(messages: Catalogue<T>): Same<T> {
  const language = useLanguage((state) => state.language);
  return messages[language] as Same<T>;
}

/** Outside of components. */
export function messagesNow<T extends Texts>(messages: Catalogue<T>): Same<T> {
  return messages[useLanguage.getState().language] as Same<T>;
}
