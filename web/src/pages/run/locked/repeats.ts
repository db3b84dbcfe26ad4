// Which words of a text are new, which its speaker has said before, and where only digits differ. It follows the
// breaker: sentences and lines are compared, case, spacing and words with digits do not count.

// The module itself: by its name, the package comes with all its other kinds of differences.
import { diffArrays } from "diff/lib/diff/array.js";

export type Mark = "new" | "said" | "digits" | "none";

export interface MarkedPart {
  text: string;
  mark: Mark;
}

/** The breaker compares with so many earlier messages of the same speaker. */
const MEMORY = 8;
/** Sentences with less in common than this are different sentences, whatever small words they share. */
const SIMILAR = 0.5;
/** More earlier sentences than this are not searched for a similar one, so that long texts stay fast. */
const SEARCHED = 300;

/** Chinese and Japanese have no spaces: each character counts as a word. */
const IDEOGRAPH = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}";
const LETTERS = `(?:(?![${IDEOGRAPH}])[\\p{L}\\p{M}\\p{N}_])+`;
const TOKEN = new RegExp(`[${IDEOGRAPH}]|${LETTERS}(?:[.,:'’/-]${LETTERS})*|\\s+|[^]`, "gu");
const WORD = /[\p{L}\p{N}_]/u;
const DIGIT = /\p{N}/u;
/** The end of a sentence or a line. A point inside a number ends nothing. */
const END = /(?:[.!?]+["'”’)\]]*(?=\s)|[。！？；]+[”’）」』]*)\s*|\n+/gu;

interface Unit {
  tokens: string[];
  /** The words in lower case. */
  words: string[];
}

export function units(text: string): string[] {
  const result: string[] = [];
  let start = 0;
  for (const match of text.matchAll(END)) {
    const end = match.index + match[0].length;
    result.push(text.slice(start, end));
    start = end;
  }
  if (start < text.length) result.push(text.slice(start));
  return result;
}

function read(text: string): Unit {
  const tokens = text.match(TOKEN) ?? [];
  return { tokens, words: tokens.filter((token) => WORD.test(token)).map((token) => token.toLowerCase()) };
}

const exactly = (unit: Unit) => unit.words.join(" ");
const withoutDigits = (unit: Unit) => unit.words.map((word) => (DIGIT.test(word) ? "#" : word)).join(" ");

/** The texts of one speaker, the oldest first, each with its words marked by what came before it. */
export function markRepeats(texts: readonly string[]): MarkedPart[][] {
  const parsed = texts.map((text) => units(text).map(read));
  return parsed.map((own, index) => {
    const earlier = parsed.slice(Math.max(0, index - MEMORY), index).flat().filter((unit) => unit.words.length > 0);
    const exact = new Set(earlier.map(exactly));
    const loose = new Map(earlier.map((unit) => [withoutDigits(unit), unit]));
    return join(
      own.flatMap((unit) => {
        const marks = marksOf(unit, exact, loose, earlier);
        let at = 0;
        return unit.tokens.map((text) => ({ text, mark: WORD.test(text) ? (marks[at++] ?? "new") : null }));
      }),
    );
  });
}

/** One mark for each word. */
function marksOf(unit: Unit, exact: ReadonlySet<string>, loose: ReadonlyMap<string, Unit>, earlier: readonly Unit[]): Mark[] {
  if (exact.has(exactly(unit))) return unit.words.map(() => "said");
  const same = loose.get(withoutDigits(unit));
  if (same !== undefined) return unit.words.map((word, at) => (word === same.words[at] ? "said" : "digits"));
  const like = mostSimilar(unit, earlier);
  if (like === undefined) return unit.words.map(() => "new");
  const changes = diffArrays(like.words, unit.words, { maxEditLength: 400 });
  if (changes === undefined) return unit.words.map(() => "new");
  return changes.flatMap((change) => (change.removed ? [] : change.value.map((): Mark => (change.added ? "new" : "said"))));
}

function mostSimilar(unit: Unit, earlier: readonly Unit[]): Unit | undefined {
  let best: Unit | undefined;
  let most = SIMILAR;
  const own = counts(unit.words);
  for (const other of earlier.slice(-SEARCHED)) {
    let shared = 0;
    for (const [word, count] of counts(other.words)) shared += Math.min(count, own.get(word) ?? 0);
    const share = (2 * shared) / (unit.words.length + other.words.length);
    if (share >= most) {
      most = share;
      best = other;
    }
  }
  return best;
}

function counts(words: readonly string[]): Map<string, number> {
  const result = new Map<string, number>();
  for (const word of words) result.set(word, (result.get(word) ?? 0) + 1);
  return result;
}

/** Signs belong to the word before them; a space is marked only between words with the same mark. */
function join(tokens: readonly { text: string; mark: Mark | null }[]): MarkedPart[] {
  const following: (Mark | null)[] = [];
  let next: Mark | null = null;
  for (let at = tokens.length - 1; at >= 0; at--) {
    following[at] = next;
    next = tokens[at]?.mark ?? next;
  }
  const parts: MarkedPart[] = [];
  let last: Mark | null = null;
  tokens.forEach((token, at) => {
    const after = following[at] ?? null;
    const mark = token.mark ?? (/\s/.test(token.text) ? (last === after ? last : null) : (last ?? after)) ?? "none";
    if (token.mark !== null) last = token.mark;
    const part = parts.at(-1);
    if (part?.mark === mark) part.text += token.text;
    else parts.push({ text: token.text, mark });
  });
  return parts;
}
