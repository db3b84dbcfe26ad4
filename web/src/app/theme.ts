// Light, dark, or as the system has it.
import { create } from "zustand";
import { keep } from "../ui/kept";

export type Theme = "system" | "light" | "dark";
const KEY = "roundel.theme";

const { dataset } = document.documentElement;

/** The script that has set the theme before the first paint sets it again (public/theme.js). */
function apply(theme: Theme): void {
  if (theme === "system") delete dataset.choice;
  else dataset.choice = theme;
  dispatchEvent(new Event("roundel:theme"));
}

export const useTheme = create<{ theme: Theme; choose: (theme: Theme) => void }>((set) => ({
  theme: (dataset.choice as Theme | undefined) ?? "system",
  choose: (theme) => {
    keep("browser", KEY, theme);
    apply(theme);
    set({ theme });
  },
}));

export function isDark(): boolean {
  return dataset.theme === "dark";
}
