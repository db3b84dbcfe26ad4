import type { ApiRequest } from "../../api/requests";
import { queryOf, statusesOf, type Filter, type Group } from "./filter";

const PAGE = 60;

/** A page of one section of the list; null if the filter leaves nothing of it. */
export function partRequest(filter: Filter, group: Group, cursor: string): ApiRequest | null {
  const status = statusesOf(filter, group);
  if (status.length === 0) return null;
  return ["/runs", { query: { ...queryOf(filter, Date.now()), status, cursor, limit: PAGE } }];
}
