// What the browser keeps: drafts until the tab is closed, settings for good. Browsers may block storage, or it is
// full: what was to be kept then lasts as long as the page.

type Place = "tab" | "browser";

function storageOf(place: Place): Storage {
  return place === "tab" ? sessionStorage : localStorage;
}

/** The text that is kept; null if there is none. */
export function readKept(place: Place, key: string): string | null {
  try {
    return storageOf(place).getItem(key);
  } catch {
    return null;
  }
}

/** Keeps a text; null removes it. */
export function keep(place: Place, key: string, text: string | null): void {
  try {
    if (text === null) storageOf(place).removeItem(key);
    else storageOf(place).setItem(key, text);
  } catch {
    // It lasts as long as the page.
  }
}

/** All values of this tab whose keys begin with a prefix, by what follows. Values that are no objects are passed
 * over: people edit storage by hand. */
export function keptDrafts<T extends object>(prefix: string): Record<string, Partial<T>> {
  const found: Record<string, Partial<T>> = {};
  for (const key of keysOfTab()) {
    const draft = key.startsWith(prefix) ? readKeptObject<T>("tab", key) : null;
    if (draft !== null) found[key.slice(prefix.length)] = draft;
  }
  return found;
}

/** The object that is kept as JSON; null if there is none. */
export function readKeptObject<T extends object>(place: Place, key: string): Partial<T> | null {
  try {
    const value = JSON.parse(readKept(place, key) ?? "null") as unknown;
    return typeof value === "object" ? (value as Partial<T> | null) : null;
  } catch {
    return null;
  }
}

function keysOfTab(): string[] {
  try {
    return Object.keys(sessionStorage);
  } catch {
    return [];
  }
}
