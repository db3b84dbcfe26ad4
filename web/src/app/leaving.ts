// What happens when a page is left: it may ask before something unsaved is lost, and the next one is loaded. One
// page at a time may guard.
import { loadPage } from "./pages";

type Go = () => void;
/** Whether the page is not left yet: it goes on with `go` once its question is answered. */
type Guard = (go: Go) => boolean;

let guard: Guard | null = null;

/** Guards until the returned function is called. */
export function guardLeaving(next: Guard): () => void {
  guard = next;
  return () => {
    if (guard === next) guard = null;
  };
}

/** How long a page stays while the next one is loaded, in milliseconds. After that, a frame says that it is loading. */
const LOADING_MS = 300;

/** Around each navigation inside of the page, for the router. */
export function aroundNavigation<Options>(navigate: (to: string, options?: Options) => void, to: string, options?: Options): void {
  const go = () => {
    const loading = loadPage(new URL(to, location.href).pathname);
    if (loading === null) navigate(to, options);
    else void Promise.race([loading, new Promise((resolve) => setTimeout(resolve, LOADING_MS))]).then(() => navigate(to, options));
  };
  if (guard === null || !guard(go)) go();
}
