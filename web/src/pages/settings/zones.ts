// Time zones by name, and by the words people type.

/** All zones of the browser; UTC is not among them everywhere. */
export function allZones(): readonly string[] {
  const known = Intl.supportedValuesOf("timeZone");
  return known.includes("UTC") ? known : ["UTC", ...known];
}

/** The zones whose names contain all words of a query: `new york`, `europe vi`. */
export function matchingZones(query: string, zones: readonly string[] = allZones()): string[] {
  const words = query.toLowerCase().split(/[\s_/]+/).filter(Boolean);
  return zones.filter((zone) => {
    const name = zone.toLowerCase();
    return words.every((word) => name.includes(word));
  });
}
