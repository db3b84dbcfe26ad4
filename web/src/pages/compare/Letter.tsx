/** The sign of a run: A is a square, B is a disc. */
export function Letter({ of, isHidden = false }: { of: "a" | "b"; isHidden?: boolean }) {
  return <span className={`compare-letter compare-letter-${of}`} aria-hidden={isHidden || undefined}>{of.toUpperCase()}</span>;
}
