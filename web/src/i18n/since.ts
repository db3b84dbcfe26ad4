// Apart from format.ts, which needs React: the first requests of a page are sent without it (src/early.ts).

/** The times that filters offer, in seconds before now. */
export const SINCE = { "1h": 3600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000 } as const;
export type Since = keyof typeof SINCE;
