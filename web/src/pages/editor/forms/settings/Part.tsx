// The parts that forms of settings are made of: groups of fields, sentences, and numbers that a switch turns off.
import { useId, useRef, useState, type ReactNode } from "react";
import type { Path } from "../../../../document/model";
import { Switch } from "../../../../ui/Switch";
import type { FieldSpec, ObjectSpec } from "../catalogue";
import { useForm } from "../context";
import { FieldView } from "../fields/FieldView";
import { Help, HelpButton } from "../fields/Line";
import { ScalarInput } from "../fields/ScalarInput";
import { fitOf, isVariable, keyOf, valueOf } from "../values";
import "./settings.css";

export interface SettingsProps {
  spec: ObjectSpec;
  at: Path;
  value: unknown;
}

/** Fields that belong together. */
export function Part({ title, children }: { title?: string; children: ReactNode }) {
  const id = useId();
  return (
    <div className="settings-part" role="group" aria-labelledby={title ? id : undefined}>
      {title && (
        <span id={id} className="settings-title">
          {title}
        </span>
      )}
      {children}
    </div>
  );
}

/** What the settings above do. */
export function Says({ children }: { children: ReactNode }) {
  return children ? <p className="form-help settings-says">{children}</p> : null;
}

/** The fields of an object by their keys: what the description does not have is not shown. */
export function useFields({ spec, at, value }: SettingsProps) {
  const field = (key: string) => spec.fields.find((one) => one.key === key);
  return {
    field,
    of: (key: string) => {
      const found = field(key);
      return found && valueOf(found, value);
    },
    view: (key: string) => {
      const found = field(key);
      return found && <FieldView key={key} field={found} at={at} container={value} />;
    },
  };
}

/** A number as it is said: with separators, or as the variable that stands for it. */
export function amountOf(value: unknown, format: (number: number) => string): string {
  return typeof value === "number" ? format(value) : String(value);
}

/** Whether the control of a field can show its value; otherwise the general form shows it as text. */
export function isPlain(field: FieldSpec, value: unknown): boolean {
  const isNumber = field.type === "number" || field.type === "integer";
  return fitOf(field, value) === "plain" || (isNumber && isVariable(value));
}

/** A number that holds only if it is written. What the switch turns off comes back when it is turned on again. */
export function SwitchedNumber({
  field,
  at,
  container,
  first,
  off,
  children,
}: {
  field: FieldSpec;
  at: Path;
  container: unknown;
  /** What is written when it is turned on for the first time. */
  first: number;
  /** A value that turns it off, too. */
  off?: number;
  /** What it does while it is on. */
  children?: ReactNode;
}) {
  const form = useForm();
  const [isHelped, setHelped] = useState(false);
  const value = valueOf(field, container);
  const before = useRef<unknown>(first);
  const isOn = value !== undefined && value !== null && value !== off;
  if (isOn) before.current = value;
  if (!isPlain(field, value) || form.isMixed([...at, keyOf(field, container)])) return <FieldView field={field} at={at} container={container} />;
  const write = (next: unknown) => form.set(field, at, container, next);
  return (
    <div className="settings-number">
      <div className="form-switch-line">
        <Switch label={field.title} checked={isOn} onChange={(next) => write(next ? before.current : undefined)} />
        <HelpButton title={field.title} isOpen={isHelped} onClick={() => setHelped(!isHelped)} />
        <div className="settings-amount">{isOn && <ScalarInput label={field.title} field={{ ...field, default: null }} value={value} onWrite={write} />}</div>
      </div>
      {isHelped && <Help text={field.description} see={field.see} />}
      {isOn && <Says>{children}</Says>}
    </div>
  );
}

/** A guard that can be turned off, with its settings. They stay in the text while it is off. */
export function SwitchedPart({
  field,
  at,
  container,
  says,
  saysOff,
  children,
}: {
  field: FieldSpec | undefined;
  at: Path;
  container: unknown;
  says: ReactNode;
  saysOff: ReactNode;
  children: ReactNode;
}) {
  const form = useForm();
  const [isHelped, setHelped] = useState(false);
  if (!field) return <Part>{children}</Part>;
  const value = valueOf(field, container);
  if (!isPlain(field, value) || form.isMixed([...at, keyOf(field, container)])) {
    return (
      <Part>
        <FieldView field={field} at={at} container={container} />
        {children}
      </Part>
    );
  }
  const isOn = Boolean(value ?? field.default);
  return (
    <Part>
      <div className="form-switch-line settings-main">
        <Switch label={field.title} checked={isOn} onChange={(next) => form.set(field, at, container, next)} />
        <HelpButton title={field.title} isOpen={isHelped} onClick={() => setHelped(!isHelped)} />
      </div>
      {isHelped && <Help text={field.description} see={field.see} />}
      <Says>{isOn ? says : saysOff}</Says>
      {isOn && children}
    </Part>
  );
}
