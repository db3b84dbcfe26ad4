import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { queryClient } from "../../../api/queries";
import { useLanguage } from "../../../i18n/messages";
import { descriptionsIn } from "../descriptions";
import { fieldsIn, type Fields } from "./schema";

/** The fields of all objects in the reader's language; null until they are loaded. */
export function useFields(): Fields | null {
  const language = useLanguage((state) => state.language);
  const { data } = useQuery(descriptionsIn(language));
  return useMemo(() => (data ? fieldsIn(data) : null), [data]);
}

/** The same, as soon as they are loaded. */
export async function loadFields(): Promise<Fields> {
  return fieldsIn(await queryClient.ensureQueryData(descriptionsIn(useLanguage.getState().language)));
}
