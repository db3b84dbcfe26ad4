// Colours of YAML: classes, whose colours come from the tokens of the page.
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Decoration, MatchDecorator, ViewPlugin, type DecorationSet, type EditorView, type ViewUpdate } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const classes = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.definition(tags.propertyName), class: "yaml-key" },
    { tag: [tags.lineComment, tags.comment], class: "yaml-comment" },
    { tag: [tags.string, tags.special(tags.string)], class: "yaml-string" },
    { tag: [tags.keyword, tags.labelName, tags.typeName, tags.meta], class: "yaml-mark" },
    { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], class: "yaml-sign" },
  ]),
);

// The grammar does not tell numbers from texts.
const numbers = new MatchDecorator({
  regexp: /(?<=(?:: |[[,] ?|- ))-?\d[\d_]*(?:\.\d+)?(?:e[-+]?\d+)?(?=\s*(?:[,}\]]|$|#))/gi,
  decoration: Decoration.mark({ class: "yaml-number" }),
});

const numberMarks = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = numbers.createDeco(view);
    }
    update(update: ViewUpdate) {
      this.decorations = numbers.updateDeco(update, this.decorations);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

export const highlighting = [classes, numberMarks];
