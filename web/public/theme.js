// Before the first paint, so that a dark page never flashes white.
try {
  const theme = localStorage.getItem("roundel.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  const language = localStorage.getItem("roundel.language") || navigator.language;
  document.documentElement.lang = language.startsWith("zh") ? "zh" : "en";
} catch {
  // Storage is blocked: the system's choice holds.
}
