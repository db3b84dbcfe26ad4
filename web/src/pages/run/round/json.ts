// JSON for people: indented, and otherwise exactly as it was written.

/** What is shorter stays on one line; a narrow pane wraps it once. */
const SHORT = 110;

/** An object or a list as indented text; null if the text is neither. Values stay as they are written: parsing and
 * writing them again would change large numbers and repeated keys. Only letters that are escaped as `\u8bf4` are
 * shown as letters. */
export function prettyJson(text: string): string | null {
  const trimmed = text.trim();
  if (!/^[[{]/.test(trimmed) || !/[\]}]$/.test(trimmed)) return null;
  try {
    JSON.parse(trimmed);
  } catch {
    return null;
  }
  return write(lexemes(trimmed).map(readable), 0, "").text;
}

/** A character that has a shape of its own: others, such as those that change the direction of text, stay escaped. */
const VISIBLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S}]$/u;

function readable(lexeme: string): string {
  if (!lexeme.includes("\\u")) return lexeme;
  // Two halves of one character, one character, or any other escape, whose backslash must not begin one.
  return lexeme.replace(/\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\u([0-9a-f]{4})|\\./gi, (escape, high, low, one) => {
    const codes = [high, low, one].filter((code) => code !== undefined).map((code) => parseInt(code, 16));
    const character = String.fromCharCode(...codes);
    return codes.length && (codes[0] ?? 0) > 0x9f && VISIBLE.test(character) ? character : escape;
  });
}

function lexemes(text: string): string[] {
  return text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
}

/** Writes the value that begins at `at`; a short one on one line. */
function write(parts: readonly string[], at: number, indent: string): { text: string; next: number } {
  const open = parts[at] ?? "";
  if (open !== "{" && open !== "[") return { text: open, next: at + 1 };
  const close = open === "{" ? "}" : "]";
  const inner = `${indent}  `;
  const items: string[] = [];
  let next = at + 1;
  while (next < parts.length && parts[next] !== close) {
    let item = "";
    if (open === "{") {
      item = `${parts[next]}: `;
      next += 2;
    }
    const value = write(parts, next, inner);
    items.push(item + value.text);
    next = value.next;
    if (parts[next] === ",") next++;
  }
  next++;
  if (!items.length) return { text: open + close, next };
  const line = open === "{" ? `{${items.join(", ")}}` : `[${items.join(", ")}]`;
  if (line.length + indent.length <= SHORT && !line.includes("\n")) return { text: line, next };
  return { text: `${open}\n${items.map((item) => inner + item).join(",\n")}\n${indent}${close}`, next };
}

/** Arguments of a tool on one line, as a call has them: `path: "tests", timeout: 20`. */
export function inlineArguments(given: unknown): string {
  if (given === null || typeof given !== "object" || Array.isArray(given)) return JSON.stringify(given) ?? "";
  return Object.entries(given)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    .join(", ");
}

/** A value of unknown type as text: texts as they are, everything else as JSON. */
export function asText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : (JSON.stringify(value, null, 2) ?? String(value));
}

