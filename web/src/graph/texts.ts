// The words on nodes and loops that do not depend on a run.
import type { ShapeTexts } from "./messages";
import type { Loop } from "./scene";

/** The caption of a node, with its limit in the language of the reader. */
export function limitText(caption: string, texts: ShapeTexts): string {
  const limit = /^(.*), (\d+) (times|rounds|nodes?)$/.exec(caption);
  if (limit === null) return caption;
  const [, type = "", count = "", unit] = limit;
  if (unit === "times") return texts.limitTimes(type, Number(count));
  return unit === "rounds" ? texts.limitRounds(type, Number(count)) : texts.nodesInside(type, Number(count));
}

/** Why a loop ends, and whether that is proved. */
export function proofText(loop: Loop, texts: ShapeTexts): { text: string; isProved: boolean } {
  const { proof, most, region } = loop;
  if (proof === undefined) {
    return most === null ? { text: texts.noBound, isProved: false } : { text: texts.proved(region.title), isProved: true };
  }
  if (most === null) {
    const clock = proof.bounded_by.find((limit) => typeof limit.limit === "string");
    if (clock === undefined) return { text: texts.unproved(proof.cap), isProved: false };
    return { text: texts.byClock(String(clock.limit), clock.guard), isProved: true };
  }
  const guards = proof.bounded_by.filter((limit) => limit.limit === most).map((limit) => limit.guard);
  if (!guards.length) return { text: proof.bounded_by.length ? texts.provedCap : texts.provedAlone, isProved: true };
  const by = [...new Set(guards)].join(texts.and);
  const total = proof.worst_case_total;
  return { text: total !== null && total > most ? texts.inAll(total, by) : texts.proved(by), isProved: true };
}
