import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { call } from "../../../api/client";
import type { Catalog } from "../../../api/schema";
import { useLanguage } from "../../../i18n/messages";
import { fieldsIn, type Fields } from "./schema";

/** The fields of all objects in the reader's language; null until they are loaded. */
export function useFields(): Fields | null {
  const language = useLanguage((state) => state.language);
  const { data } = useQuery({
    queryKey: ["node-types", language],
    queryFn: () => call<Catalog>("/node-types", { query: { language } }),
    staleTime: Infinity,
  });
  return useMemo(() => (data ? fieldsIn(data) : null), [data]);
}
