import { catalogue } from "../../i18n/messages";

export const messages = catalogue(
  {
    equalLines: (count: number) => `${count} equal lines`,
    same: "Nothing changed.",
  },
  {
    equalLines: (count: number) => `${count} 行相同`,
    same: "没有变化。",
  },
);
