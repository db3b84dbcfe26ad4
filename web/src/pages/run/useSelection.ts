// The selected address is the fragment of the URL, `#Writer[3]/Reviewer`: links, the back button and sharing
// work by themselves. Events never change it.
import { useCallback, useSyncExternalStore } from "react";

const CHANGED = "roundel:selection";

function subscribe(onChange: () => void): () => void {
  for (const name of ["hashchange", "popstate", CHANGED]) addEventListener(name, onChange);
  return () => {
    for (const name of ["hashchange", "popstate", CHANGED]) removeEventListener(name, onChange);
  };
}

export function readSelection(hash: string): string {
  try {
    return decodeURIComponent(hash.replace(/^#/, ""));
  } catch {
    // Somebody has typed a lonely percent sign.
    return hash.replace(/^#/, "");
  }
}

/** The fragment for an address. Brackets and slashes stay as they are, so that people can read it. */
export function writeSelection(address: string): string {
  return encodeURIComponent(address).replace(/%5B/g, "[").replace(/%5D/g, "]").replace(/%2F/g, "/");
}

export function useSelection(): [string, (address: string) => void] {
  const selected = useSyncExternalStore(subscribe, () => readSelection(location.hash));
  const select = useCallback((address: string) => {
    if (address === readSelection(location.hash)) return;
    const hash = address ? `#${writeSelection(address)}` : "";
    history.pushState(history.state, "", location.pathname + location.search + hash);
    dispatchEvent(new Event(CHANGED));
  }, []);
  return [selected, select];
}
