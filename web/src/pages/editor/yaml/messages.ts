import { catalogue } from "../../../i18n/messages";

export const messages = catalogue(
  {
    title: "YAML",
    kept: "comments and order are kept",
    readOnly: "read only",
    changes: "Changes",
    revert: "Revert",
    required: "required",
    standard: (value: string) => `default ${value}`,
    addCounter: "Add a counter here",
    keys: "Tab indents. Press Escape, then Tab, to leave the text. Ctrl F searches, Ctrl Space completes, F8 goes to the next problem.",
  },
  {
    title: "YAML",
    kept: "注释和顺序保持不变",
    readOnly: "只读",
    changes: "更改",
    revert: "还原",
    required: "必填",
    standard: (value: string) => `默认 ${value}`,
    addCounter: "在此添加计数器",
    keys: "Tab 缩进。先按 Escape 再按 Tab 可离开文本。Ctrl F 搜索，Ctrl 空格 补全，F8 跳到下一个问题。",
  },
);
