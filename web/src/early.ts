// Asks the server for what this address shows, while the scripts of the page are still on their way. A file of
// its own, and small: the document names it before all others (roundel/server/preloads.py).
import { sendAhead } from "./api/client";
import { ME, planRequest, runRequest, storedEventsRequest, summaryRequest, type ApiRequest } from "./api/requests";
import { GROUPS, parseFilter } from "./pages/runs/filter";
import { partRequest } from "./pages/runs/requests";

function requestsOf(path: string, search: string): readonly (ApiRequest | null)[] {
  if (path === "/") {
    const filter = parseFilter(search);
    // A time that passes is part of the URL, so that nobody would ask for the same again.
    if (filter.since) return [summaryRequest()];
    return [...GROUPS.map((group) => partRequest(filter, group, "")), summaryRequest()];
  }
  const run = /^\/runs\/([0-9a-z]+)$/.exec(path)?.[1];
  return run === undefined ? [] : [planRequest(run), storedEventsRequest(run, 0), runRequest(run)];
}

for (const request of [ME, ...requestsOf(location.pathname, location.search)]) {
  if (request !== null) sendAhead(...request);
}
