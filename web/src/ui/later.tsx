// Parts whose code is loaded when they are first shown: `lazy` and `Suspense` of React, but without a pause.
//
// React shows what follows a placeholder at the earliest 300 ms after it, also if the code arrives after 20 ms. That
// holds for what React itself tries again. It does not hold for an update: so each arrival is one. A part that was
// loaded before it is shown has no placeholder at all.
import { lazy, Suspense, useState, useSyncExternalStore, type ComponentProps, type ComponentType, type ReactNode } from "react";

let arrivals = 0;
const listeners = new Set<() => void>();

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tellArrival(): void {
  arrivals += 1;
  for (const listener of listeners) listener();
}

/** A component whose code is loaded when it is first rendered, inside of a `Later`; or before, by `load`, which returns
 * null if the code is there. */
export function later<Part extends ComponentType<any>>(
  load: () => Promise<{ default: Part }>,
): ComponentType<ComponentProps<Part>> & { load: () => Promise<void> | null } {
  let loaded: Part | null = null;
  const read = async () => {
    const module = await load();
    loaded = module.default;
    // React must have taken note of the code before anything is rendered again.
    queueMicrotask(() => queueMicrotask(tellArrival));
    return module;
  };
  const Lazy = lazy(read) as unknown as Part;
  function Outer(props: ComponentProps<Part>) {
    // Decided once: another component in the same place would lose its state.
    const [Shown] = useState(() => loaded ?? Lazy);
    return <Shown {...props} />;
  }
  return Object.assign(Outer, { load: () => (loaded === null ? read().then(() => {}) : null) });
}

/** Shows a placeholder, or nothing, until the code of its children has arrived. */
export function Later({ fallback, children }: { fallback?: ReactNode; children?: ReactNode }) {
  useSyncExternalStore(listen, () => arrivals);
  return <Suspense fallback={fallback}>{children}</Suspense>;
}
