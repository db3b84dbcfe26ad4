// Help for keys, while the pointer is on one.
import { hoverTooltip, type Tooltip } from "@codemirror/view";
import { placeAt } from "./place";
import { expectedAt, type FieldInfo, type Fields } from "./schema";

/** The field of the key at a position, and where the key is. */
export function keyAt(fields: Fields, text: string, offset: number): { field: FieldInfo; from: number; to: number } | null {
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  const before = /[\w-]*$/.exec(text.slice(start, offset))?.[0].length ?? 0;
  const from = offset - before;
  const found = /^[\w-]+(?=\s*:(?:\s|$))/.exec(text.slice(from, from + 200));
  if (!found) return null;
  const place = placeAt(text, from);
  if (place === null || place.isValue) return null;
  const field = expectedAt(fields, place)?.fields.find(({ key, aliases }) => key === found[0] || aliases.includes(found[0]));
  return field ? { field, from, to: from + found[0].length } : null;
}

export function hoverHelp(fields: () => Fields | null, texts: { required: () => string; standard: (value: string) => string }) {
  return hoverTooltip((view, offset): Tooltip | null => {
    const known = fields();
    if (known === null) return null;
    const found = keyAt(known, view.state.doc.toString(), offset);
    if (found === null) return null;
    return {
      pos: found.from,
      end: found.to,
      above: true,
      create: () => {
        const dom = document.createElement("div");
        dom.className = "yaml-help";
        const add = (name: string, text: string) => {
          const line = dom.appendChild(document.createElement(name));
          line.textContent = text;
          return line;
        };
        add("strong", found.field.title);
        add("p", found.field.description);
        const { required, choices, default: standard } = found.field;
        const more = [
          required ? texts.required() : standard === null || standard === "" ? "" : texts.standard(JSON.stringify(standard)),
          choices ? choices.map(({ value }) => value).join(" | ") : "",
        ].filter(Boolean);
        if (more.length > 0) add("p", more.join(" · ")).className = "dim";
        return { dom };
      },
    };
  });
}
