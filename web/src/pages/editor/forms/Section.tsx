import { useId, type ReactNode } from "react";

/** A part of a form, divided from the others by a line. */
export function Section({ title, aside, children }: { title?: string; aside?: ReactNode; children: ReactNode }) {
  const id = useId();
  return (
    <section className="form-section" aria-labelledby={title ? id : undefined}>
      {title && (
        <div className="form-section-head">
          <h3 id={id}>{title}</h3>
          {aside}
        </div>
      )}
      {children}
    </section>
  );
}
