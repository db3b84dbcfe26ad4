// The names of saved workflows.

// Control characters, and those that change the direction of the text after them.
const CONTROL = "\\u0000-\\u001f\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069";
const NAME = new RegExp(`^[^./\\s${CONTROL}](?:[^/${CONTROL}]*[^/\\s${CONTROL}])?$`, "u");

/** As the server has it: any script, no slash, no dot at the beginning, no space at either end. */
export function isName(name: string): boolean {
  return name.length <= 200 && NAME.test(name);
}

/** A name to begin with: another one than its own for a copy, else the id of the graph. */
export function suggestedName(value: unknown, own: string): string {
  if (own) return `${own} 2`;
  const graph = field(value, "graph");
  const id = field(graph, "id") ?? field(value, "id");
  return typeof id === "string" && isName(id) ? id : "";
}

/** The name that somebody has chosen for a file before it was opened here. */
export function wantedName(): string {
  const name = field(history.state, "name");
  return typeof name === "string" && isName(name) ? name : "";
}

function field(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}
