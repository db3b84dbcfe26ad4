import type { Change } from "./model";

type Piece = { from: number; to: number } | { insert: string };

const sizeOf = (piece: Piece) => ("insert" in piece ? piece.insert.length : piece.to - piece.from);

function split(piece: Piece, at: number): [Piece, Piece] {
  if ("insert" in piece) return [{ insert: piece.insert.slice(0, at) }, { insert: piece.insert.slice(at) }];
  return [
    { from: piece.from, to: piece.from + at },
    { from: piece.from + at, to: piece.to },
  ];
}

/** What is left of a text after several changes, one after the other, and what has come in between. */
export class Pieces {
  private pieces: Piece[];

  constructor(private readonly length: number) {
    this.pieces = length > 0 ? [{ from: 0, to: length }] : [];
  }

  /** Applies changes, in order and apart from each other, to the text that the changes before have made. */
  apply(text: string, changes: readonly Change[]): string {
    const result: Piece[] = [];
    const rest = [...this.pieces].reverse();
    let at = 0;
    const advance = (to: number, keep: boolean) => {
      for (let piece = rest.pop(); piece !== undefined; piece = rest.pop()) {
        const taken = Math.min(sizeOf(piece), to - at);
        const [head, tail] = split(piece, taken);
        if (keep && taken > 0) result.push(head);
        at += taken;
        if (sizeOf(tail) > 0) {
          rest.push(tail);
          return;
        }
      }
    };
    let next = "";
    for (const { from, to, insert } of changes) {
      next += text.slice(at, from) + insert;
      advance(from, true);
      advance(to, false);
      if (insert !== "") result.push({ insert });
    }
    next += text.slice(at);
    this.pieces = [...result, ...rest.reverse()];
    return next;
  }

  /** The changes of the first text that make the last one. */
  changes(): Change[] {
    const result: Change[] = [];
    let at = 0;
    let insert = "";
    const close = (to: number) => {
      if (to > at || insert !== "") result.push({ from: at, to, insert });
      insert = "";
    };
    for (const piece of this.pieces) {
      if ("insert" in piece) insert += piece.insert;
      else {
        close(piece.from);
        at = piece.to;
      }
    }
    close(this.length);
    return result;
  }
}
