// What lists and the editor need of addresses, apart from the rest, so that they load no more.

/** The address of the innermost round that contains an address, or is it; empty outside of all loops. */
export function roundOf(address: string): string {
  return address.slice(0, address.lastIndexOf("]") + 1);
}

/** Between the parts of an address. A full stop is one only behind a round. */
export const SEPARATOR = /\/|(?<=\])\./;

/** The parts of an address with what separates them: a slash, or a full stop behind a round. */
export function partsOf(address: string): string[] {
  return address.split(/(\/|(?<=\])\.)/);
}

/** A part without its round and the number of a part of a dynamic edge. */
export function nameOf(part: string): string {
  return part.replace(/(?:\[\d+\])?(?:#\d+(?:\.\d+)?)?$/, "");
}

/** The last part of an address, with its numbers: `Fan#2` of `Writer[2]/Fan#2`. */
export function lastPart(address: string): string {
  return address.split(SEPARATOR).at(-1) ?? "";
}
