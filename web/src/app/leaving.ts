// Asks before a page is left that has something unsaved. One page at a time may guard.

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

/** Around each navigation inside of the page, for the router. */
export function aroundNavigation<Options>(navigate: (to: string, options?: Options) => void, to: string, options?: Options): void {
  const go = () => navigate(to, options);
  if (guard === null || !guard(go)) go();
}
