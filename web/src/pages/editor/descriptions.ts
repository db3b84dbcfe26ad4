// What the server says about node types and fields: one request for palette, forms, completion and help.
import { call } from "../../api/client";
import type { Catalog } from "../../api/schema";
import type { Language } from "../../i18n/messages";

export const descriptionsIn = <Shape = Catalog>(language: Language) => ({
  queryKey: ["node-types", language],
  queryFn: () => call<Shape>("/node-types", { query: { language } }),
  staleTime: Infinity,
});
