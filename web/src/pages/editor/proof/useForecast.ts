import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { call } from "../../../api/client";
import type { ForecastResult } from "../../../api/schema";

/** What a run of a text may take; null asks nothing. */
export function useForecast(text: string | null, name: string) {
  return useQuery({
    queryKey: ["forecast", name, text],
    queryFn: ({ signal }) => call<ForecastResult>("/forecast", { body: { text, name }, signal }),
    enabled: text !== null,
    placeholderData: keepPreviousData,
    staleTime: Infinity,
    gcTime: 60_000,
  });
}
