// Light, dark, or as the system has it.
import { create } from "zustand";
import { keep } from "../ui/kept";

export type Theme = "system" | "light" | "dark";
const KEY = "roundel.theme";

function apply(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function stored(): Theme {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "system";
}

export const useTheme = create<{ theme: Theme; choose: (theme: Theme) => void }>((set) => ({
  theme: stored(),
  choose: (theme) => {
    keep("browser", KEY, theme);
    apply(theme);
    set({ theme });
  },
}));

export function isDark(): boolean {
  const theme = useTheme.getState().theme;
  return theme === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
}
