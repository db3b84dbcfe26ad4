// The values of plain scalars, by the core schema of YAML 1.2, as the server's parser reads them
// (src/roundel/workflow/yaml_parser.py).

export type ScalarValue = string | number | boolean | null;

const WORDS = new Map<string, ScalarValue>([
  ...["", "~", "null", "Null", "NULL"].map((word) => [word, null] as const),
  ...["true", "True", "TRUE"].map((word) => [word, true] as const),
  ...["false", "False", "FALSE"].map((word) => [word, false] as const),
  ...[".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"].map((word) => [word, Infinity] as const),
  ...["-.inf", "-.Inf", "-.INF"].map((word) => [word, -Infinity] as const),
  ...[".nan", ".NaN", ".NAN"].map((word) => [word, NaN] as const),
]);
const OCTAL_OR_HEX = /^0o[0-7]+$|^0x[0-9a-fA-F]+$/;
const NUMBER = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;

export function parseScalar(text: string): ScalarValue {
  const word = WORDS.get(text);
  if (word !== undefined) return word;
  if (!/^[-+.0-9]/.test(text)) return text;
  if (NUMBER.test(text) || OCTAL_OR_HEX.test(text)) return Number(text);
  return text;
}

/** Words that other parsers of YAML take for booleans or null; as text they are quoted. */
const OTHER_WORDS = /^(?:yes|no|on|off|true|false|null|~)$/i;
/** Numbers and dates of YAML 1.1. */
const OTHER_NUMBERS = /^[-+]?[0-9][0-9_,:.]*$|^[-+]?0[xob][0-9a-fA-F_]+$|^\d{4}-\d\d?-\d\d?(?:[Tt ].*)?$/;

/** Whether a text that is not quoted could be read as something else, by this parser or by another one. */
export function looksTyped(text: string): boolean {
  return typeof parseScalar(text) !== "string" || OTHER_WORDS.test(text) || OTHER_NUMBERS.test(text);
}
