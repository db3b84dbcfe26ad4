import { describe, expect, it } from "vitest";
import { layoutStrip, openRounds, possible, share, type Box, type Layout, type LayoutInput } from "./layout";
import { assignLanes, type Pause, type StripLoop, type StripRound, type StripTree } from "./tree";

function round(stem: string, number: number, from: number, to: number, more: Partial<StripRound> = {}): StripRound {
  return {
    address: `${stem}[${number}]`,
    stem,
    loop: stem.split(".").at(-1) ?? stem,
    number,
    lane: 0,
    name: "",
    from,
    to,
    isOpen: false,
    fill: 0.5,
    value: 50,
    measure: "score",
    failed: "",
    isRetried: false,
    isBest: false,
    isStale: false,
    active: "",
    said: "",
    left: null,
    turns: [],
    inner: [],
    count: 0,
    ...more,
  };
}

function loop(stem: string, depth: number, rounds: StripRound[], more: Partial<StripLoop> = {}): StripLoop {
  return { stem, loop: stem, depth, kind: "rounds", measure: "score", isOuter: false, rounds, exit: null, elements: 0, ...more };
}

function pause(from: number, to: number, status: Pause["status"] = "waiting"): Pause {
  return { status, from, to, address: "", reason: "", at: "", by: "" };
}

function tree(loops: StripLoop[], pauses: Pause[] = [], depths = 1): StripTree {
  let roundCount = 0;
  for (const one of loops) roundCount += one.rounds.length;
  return { loops, pauses, rest: null, depths, speakers: [], roundCount };
}

/** A loop whose rounds follow each other. */
function flat(stem: string, count: number, each: number, start = 0): StripRound[] {
  return Array.from({ length: count }, (_, index) => round(stem, index + 1, start + index * each, start + (index + 1) * each));
}

function lay(made: StripTree, more: Partial<LayoutInput> = {}): Layout {
  return layoutStrip({ tree: made, mode: "time", room: 1160, paths: [], selected: "", brush: null, scrolls: false, ...more });
}

function expectNoOverlap(boxes: readonly Box[]): void {
  const sorted = [...boxes].sort((a, b) => a.x - b.x);
  for (let at = 1; at < sorted.length; at++) {
    const before = sorted[at - 1] as Box;
    const next = sorted[at] as Box;
    expect(before.x + before.width, `${before.key} and ${next.key}`).toBeLessThanOrEqual(next.x + 0.001);
  }
}

/** Numbers that look random, the same in each run. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

describe("time", () => {
  it("gives long rounds more room than short ones", () => {
    const made = lay(tree([loop("W", 0, [round("W", 1, 0, 10_000), round("W", 2, 10_000, 40_000)])]));
    const [first, second] = made.cells;
    expect(second?.width).toBeGreaterThan(2.5 * (first?.width ?? 0));
  });

  it("gives all rounds the same room if even", () => {
    const made = lay(tree([loop("W", 0, [round("W", 1, 0, 10_000), round("W", 2, 10_000, 40_000)])]), { mode: "even" });
    expect(made.cells[0]?.width).toBe(made.cells[1]?.width);
  });

  it("does not move what is before a growing cell until the next rung", () => {
    const at = (to: number) => lay(tree([loop("W", 0, [...flat("W", 3, 10_000), round("W", 4, 30_000, to, { isOpen: true })])]));
    const widths = [31_000, 33_000, 36_000].map((to) => at(to).cells.slice(0, 3).map((cell) => cell.width));
    expect(widths[1]).toEqual(widths[0]);
    expect(widths[2]).toEqual(widths[0]);
  });

  it("squeezes a pause to a gap between two cells", () => {
    const day = 86_400_000;
    const rounds = [round("W", 1, 0, 10_000), round("W", 2, 10_000 + day, 20_000 + day)];
    const made = lay(tree([loop("W", 0, rounds)], [pause(10_000, 10_000 + day)]));
    expect(made.gaps).toHaveLength(1);
    expect(made.gaps[0]?.width).toBeLessThan(100);
    expect(made.cells).toHaveLength(2);
    expectNoOverlap([...made.cells, ...made.gaps]);
    expect(made.cells[0]?.width).toBeCloseTo(made.cells[1]?.width ?? 0);
  });

  it("goes on with a round behind a pause inside it", () => {
    const rounds = [round("W", 1, 0, 100_000)];
    const made = lay(tree([loop("W", 0, rounds)], [pause(20_000, 80_000)]));
    expect(made.cells.map((cell) => cell.part)).toEqual([0, 1]);
    expect(made.cells.map((cell) => cell.isLast)).toEqual([false, true]);
    expectNoOverlap([...made.cells, ...made.gaps]);
  });

  it("leaves out what little happened in a round after a pause", () => {
    const made = lay(tree([loop("W", 0, [round("W", 1, 0, 60_010)])], [pause(20_000, 60_000)]));
    expect(made.cells).toHaveLength(1);
  });

  it("has ticks from left to right, with later times", () => {
    const made = lay(tree([loop("W", 0, flat("W", 12, 17_000))], [pause(50_000, 9_000_000)]));
    expect(made.ticks.length).toBeGreaterThan(2);
    for (let at = 1; at < made.ticks.length; at++) {
      expect(made.ticks[at]?.x).toBeGreaterThanOrEqual((made.ticks[at - 1]?.x ?? 0) + 90);
      expect(made.ticks[at]?.time).toBeGreaterThan(made.ticks[at - 1]?.time ?? 0);
    }
  });
});

describe("nesting", () => {
  function nested(outer: number, inner: number): StripTree {
    const each = 1000;
    const rounds = Array.from({ length: outer }, (_, index) => {
      const from = index * (inner + 1) * each;
      const inside = loop(`P[${index + 1}].C`, 1, flat(`P[${index + 1}].C`, inner, each, from + each));
      return round("P", index + 1, from, from + (inner + 1) * each, { inner: [inside], count: inner });
    });
    return tree([loop("P", 0, rounds, { isOuter: true })], [], 2);
  }

  it("draws an open round as a bar around its cells", () => {
    const made = lay(nested(2, 3));
    expect(made.bars.map((bar) => bar.round.address)).toEqual(["P[1]", "P[2]"]);
    expect(made.folds).toHaveLength(0);
    for (const bar of made.bars) {
      const cells = made.cells.filter((cell) => cell.round.stem.startsWith(bar.round.address));
      expect(cells).toHaveLength(3);
      for (const cell of cells) {
        expect(cell.x).toBeGreaterThanOrEqual(bar.x);
        expect(cell.x + cell.width).toBeLessThanOrEqual(bar.x + bar.width + 0.001);
      }
    }
    expectNoOverlap(made.bars);
  });

  it("folds the oldest rounds first, and never those on a path", () => {
    const made = nested(8, 10);
    const open = openRounds(made, ["P[2].C[4]", "P[8].C[1]"], 1160);
    expect(open.has("P[2]")).toBe(true);
    expect(open.has("P[8]")).toBe(true);
    expect(open.has("P[1]")).toBe(false);
    const layout = lay(made, { paths: ["P[2].C[4]", "P[8].C[1]"] });
    expect(layout.folds.length + layout.bars.length).toBe(8);
    expectNoOverlap([...layout.folds, ...layout.cells, ...layout.bands]);
  });
});

describe("folded rounds", () => {
  it("keep the pause at their end", () => {
    const inside = loop("P[1].C", 1, flat("P[1].C", 30, 1000));
    const outer = [
      round("P", 1, 0, 9_000_010, { inner: [inside], count: 30 }),
      round("P", 2, 9_000_010, 9_031_000, { inner: [loop("P[2].C", 1, flat("P[2].C", 15, 1000, 9_000_010))], count: 15 }),
    ];
    const made = lay(tree([loop("P", 0, outer, { isOuter: true })], [pause(30_000, 9_000_000)], 2), { paths: ["P[2].C[3]"] });
    expect(made.folds.map((fold) => fold.round.address)).toEqual(["P[1]"]);
    expect(made.gaps).toHaveLength(1);
    expectNoOverlap([...made.folds, ...made.gaps, ...made.cells]);
  });
});

describe("bands", () => {
  const many = tree([loop("W", 0, flat("W", 1000, 1000))]);

  it("merge ten rounds, and open around the selection", () => {
    const made = lay(many, { mode: "even", selected: "W[573]", paths: ["W[573]"] });
    expect(made.overview?.total).toBe(1000);
    expect(made.cells.map((cell) => cell.round.number)).toEqual([571, 572, 573, 574, 575, 576, 577, 578, 579, 580]);
    for (const band of made.bands) expect(band.rounds.length).toBeLessThanOrEqual(10);
    expectNoOverlap([...made.bands, ...made.cells]);
    expect(made.end).toBeLessThanOrEqual(1160);
    for (const cell of made.cells) expect(cell.width + 3).toBeGreaterThanOrEqual(34);
  });

  it("follow the end while nothing is selected, and the brush otherwise", () => {
    expect(lay(many, { mode: "even" }).cells.at(-1)?.round.number).toBe(1000);
    const made = lay(many, { mode: "even", brush: { start: 100, count: 60 } });
    const numbers = [...made.bands.flatMap((band) => band.rounds), ...made.cells.map((cell) => cell.round)].map((one) => one.number);
    expect(Math.min(...numbers)).toBe(101);
    expect(Math.max(...numbers)).toBe(160);
    expect(new Set(numbers).size).toBe(60);
  });

  it("keep failures, the best round and locks in the overview", () => {
    const rounds = flat("W", 400, 1000).map((one, index) => ({ ...one, failed: index === 7 ? "Timeout" : "", isBest: index === 99 }));
    const made = lay(tree([loop("W", 0, rounds)], [pause(150_000, 150_000, "suspended_locked")]), { mode: "even" });
    expect(made.overview?.marks.map((mark) => mark.kind).sort()).toEqual(["best", "failed", "locked"]);
  });

  it("are not used while cells fit", () => {
    expect(lay(tree([loop("W", 0, flat("W", 30, 1000))])).overview).toBeNull();
    expect(lay(tree([loop("W", 0, flat("W", 40, 1000))])).overview).not.toBeNull();
  });

  it("take less than five milliseconds for a thousand rounds", () => {
    for (let warm = 0; warm < 20; warm++) lay(many, { mode: "even", selected: "W[573]" });
    const times = Array.from({ length: 21 }, () => {
      const began = performance.now();
      lay(many, { mode: "even", selected: "W[573]" });
      return performance.now() - began;
    }).sort((a, b) => a - b);
    expect(times[10]).toBeLessThan(5);
  });
});

describe("lanes", () => {
  it("take the first that is free", () => {
    const spans = [
      { from: 0, to: 28 },
      { from: 0, to: 19 },
      { from: 0, to: 47 },
      { from: 19, to: 44 },
      { from: 28, to: 61 },
    ];
    expect(assignLanes(spans)).toEqual([0, 1, 2, 1, 0]);
  });

  it("never hold two rounds at once", () => {
    const next = random(7);
    for (let again = 0; again < 30; again++) {
      const rounds = Array.from({ length: 40 }, (_, index) => {
        const from = Math.floor(next() * 100_000);
        return round("E", index + 1, from, from + Math.floor(next() * 20_000));
      }).sort((a, b) => a.from - b.from);
      const lanes = assignLanes(rounds);
      const placed = rounds.map((one, index) => ({ ...one, lane: lanes[index] ?? 0 }));
      const made = lay(tree([loop("E", 0, placed, { kind: "lanes" })]));
      const group = made.lanes[0];
      expect(group?.items).toHaveLength(40);
      for (let lane = 0; lane < (group?.lanes ?? 0); lane++) expectNoOverlap(group?.items.filter((item) => item.lane === lane) ?? []);
    }
  });
});

describe("whatever happens", () => {
  it("nothing overlaps, all is in order, and each round is somewhere", () => {
    const next = random(42);
    for (let again = 0; again < 60; again++) {
      let clock = 0;
      const pauses: Pause[] = [];
      const step = (most: number) => {
        if (next() < 0.08) {
          const length = 2000 + Math.floor(next() * 10_000_000);
          pauses.push(pause(clock, clock + length));
          clock += length;
        }
        clock += Math.floor(next() * most);
      };
      const build = (stem: string, depth: number, depths: number): StripLoop => {
        const rounds: StripRound[] = [];
        const count = 1 + Math.floor(next() * (depth === depths - 1 ? 30 : 5));
        for (let number = 1; number <= count; number++) {
          const from = clock;
          step(5000);
          const inner = depth + 1 < depths ? [build(`${stem}[${number}].L${depth + 1}`, depth + 1, depths)] : [];
          step(2000);
          rounds.push(round(stem, number, from, clock, { inner, failed: next() < 0.05 ? "Error" : "" }));
        }
        return loop(stem, depth, rounds, { isOuter: depth + 1 < depths });
      };
      const depths = 1 + Math.floor(next() * 3);
      const top = build("L0", 0, depths);
      const leaves: StripRound[] = [];
      const collect = (one: StripLoop): void => {
        for (const item of one.rounds) {
          if (item.inner.length) for (const inside of item.inner) collect(inside);
          else leaves.push(item);
        }
      };
      collect(top);
      const chosen = leaves[Math.floor(next() * leaves.length)] as StripRound;
      const newest = leaves.at(-1) as StripRound;
      const mode = next() < 0.5 ? "time" : "even";
      const made = lay(tree([top], pauses, depths), { mode, selected: chosen.address, paths: [chosen.address, newest.address] });
      expectNoOverlap([...made.cells, ...made.folds, ...made.bands, ...made.gaps]);
      for (let depth = 0; depth < depths; depth++) expectNoOverlap(made.bars.filter((bar) => bar.depth === depth));
      expect(made.boxes.has(chosen.address)).toBe(true);
      const starts = made.cells.map((cell) => cell.round.from);
      expect(starts).toEqual([...starts].sort((a, b) => a - b));
      expect(new Set([...made.cells, ...made.bars, ...made.folds, ...made.bands].map((one) => one.key)).size).toBe(
        made.cells.length + made.bars.length + made.folds.length + made.bands.length,
      );
    }
  });
});

describe("what is possible", () => {
  const row = (bound: number | null, rounds: number, more = {}) => ({ bound, rounds, isLeft: false, total: null, used: rounds, ...more });

  it("multiplies what is left around by the bound inside", () => {
    expect(possible([row(4, 2), row(6, 3), row(10, 4)])).toEqual([
      { here: 2, all: 2 },
      { here: 3, all: 15 },
      { here: 6, all: 156 },
    ]);
  });

  it("has nothing left here once a loop was left, and no number without a bound", () => {
    expect(possible([row(3, 2), row(10, 6, { isLeft: true })])[1]).toEqual({ here: 0, all: 10 });
    expect(possible([row(null, 2), row(10, 6)])).toEqual([
      { here: null, all: null },
      { here: 4, all: null },
    ]);
  });

  it("is never more than what is proved for the whole run", () => {
    expect(possible([row(3, 1), row(10, 1, { total: 12, used: 5 })])[1]).toEqual({ here: 9, all: 9 });
  });
});

describe("sharing", () => {
  it("keeps the objects of cells that have not changed", () => {
    const rounds = flat("W", 5, 10_000);
    const first = lay(tree([loop("W", 0, [...rounds, round("W", 6, 50_000, 51_000, { isOpen: true })])]));
    const second = share(first, lay(tree([loop("W", 0, [...rounds, round("W", 6, 50_000, 54_000, { isOpen: true })])])));
    expect(second.cells.slice(0, 5).every((cell, index) => cell === first.cells[index])).toBe(true);
    expect(second.cells[5]).not.toBe(first.cells[5]);
  });
});
