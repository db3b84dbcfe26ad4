import { lazy, useState, type ComponentType } from "react";

export interface Loadable<Props> {
  (props: Props): React.ReactNode;
  /** Loads it, so that it is drawn at once when it is needed; null if it is loaded. */
  load: () => Promise<void> | null;
}

/** A part of the page that is loaded when it is first drawn, or before, by `load`.
 *
 * Without `load` it is what `lazy` makes. But `lazy` shows a fallback even if the module is there already, and React
 * replaces a fallback only after 300 ms. */
export function loadable<Props extends object>(read: () => Promise<{ default: ComponentType<Props> }>): Loadable<Props> {
  let loaded: ComponentType<Props> | null = null;
  const load = async () => {
    const module = await read();
    loaded = module.default;
    return module;
  };
  const Lazy = lazy(load) as unknown as ComponentType<Props>;
  function Part(props: Props) {
    // Decided once: another component in the same place would lose its state.
    const [Drawn] = useState(() => loaded ?? Lazy);
    return <Drawn {...props} />;
  }
  return Object.assign(Part, { load: () => (loaded === null ? load().then(() => {}) : null) });
}
