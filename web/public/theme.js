// Before the first paint, so that a dark page never flashes white. `data-choice` is what the reader has chosen, if
// anything; `data-theme` is what holds.
{
  const { dataset } = document.documentElement;
  const isSystemDark = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => {
    dataset.theme = dataset.choice ?? (isSystemDark.matches ? "dark" : "light");
  };
  try {
    const theme = localStorage.getItem("roundel.theme");
    if (theme === "light" || theme === "dark") dataset.choice = theme;
    const language = localStorage.getItem("roundel.language") || navigator.language;
    document.documentElement.lang = language.startsWith("zh") ? "zh" : "en";
  } catch {
    // Storage is blocked: the system's choice holds.
  }
  paint();
  isSystemDark.addEventListener("change", paint);
  addEventListener("roundel:theme", paint);
}
