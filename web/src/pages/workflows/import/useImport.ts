// The files of one import: their texts, what the server says about them, and what is saved of them.
import { useEffect, useState } from "react";
import { ApiError, call } from "../../../api/client";
import { queryClient } from "../../../api/queries";
import type { CheckResult } from "../../../api/schema";
import { messagesNow } from "../../../i18n/messages";
import { toastError } from "../../../ui/toasts";
import { isName } from "../../editor/save/names";
import { storeText } from "../../editor/save/requests";
import type { Saved } from "../../editor/store";
import { nameOfFile, readFile, type ChosenFile } from "./files";
import { messages } from "./messages";

export interface Imported extends ChosenFile {
  name: string;
  /** Null while the server checks the text, and if it could not. */
  check: CheckResult | null;
  checkError: Error | null;
  saved: Saved | null;
  isBusy: boolean;
  error: string;
}

/** What is known about a file, and what somebody has done with it. */
interface Done {
  check?: CheckResult;
  checkError?: Error | null;
  name?: string;
  saved?: Saved;
  isBusy?: boolean;
  error?: string;
}

export interface Import {
  /** Null while the files are read. */
  files: readonly Imported[] | null;
  checkAgain: (index: number) => void;
  rename: (index: number, name: string) => void;
  save: (index: number) => Promise<void>;
  saveAll: () => Promise<void>;
}

export function useImport(chosen: readonly File[]): Import {
  const [read, setRead] = useState<readonly ChosenFile[] | null>(null);
  const [done, setDone] = useState<Readonly<Record<number, Done>>>({});
  const change = (index: number, next: Done) => setDone((now) => ({ ...now, [index]: { ...now[index], ...next } }));
  const check = async ({ file, text, problem }: ChosenFile, index: number) => {
    if (problem !== null) return;
    change(index, { checkError: null });
    try {
      const result = await queryClient.fetchQuery({
        queryKey: ["check", "compact", text],
        queryFn: () => call<CheckResult>("/check", { body: { text, name: file, density: "compact" } }),
        staleTime: 60_000,
      });
      change(index, { check: result });
    } catch (error) {
      change(index, { checkError: error instanceof Error ? error : new Error(String(error)) });
    }
  };
  useEffect(() => {
    let isCurrent = true;
    Promise.all(chosen.map(readFile)).then((files) => {
      if (!isCurrent) return;
      setRead(files);
      files.forEach((file, index) => void check(file, index));
    }, toastError);
    return () => {
      isCurrent = false;
    };
  }, [chosen]);
  const files = read?.map((file, index): Imported => {
    const { check: found = null, checkError = null, name, saved = null, isBusy = false, error = "" } = done[index] ?? {};
    const shown = name ?? nameOfFile(file.file, found?.workflow ?? "");
    return { ...file, check: found, checkError, saved, isBusy, error, name: shown };
  });
  const save = async (index: number) => {
    const texts = messagesNow(messages);
    const file = files?.[index];
    if (file === undefined || file.saved !== null || file.isBusy) return;
    if (!isName(file.name)) {
      change(index, { error: texts.nameWrong });
      return;
    }
    change(index, { isBusy: true, error: "" });
    try {
      const { saved } = await storeText(file.name, null, file.text, null);
      change(index, { saved, isBusy: false });
    } catch (error) {
      const isTaken = error instanceof ApiError && error.status === 412;
      change(index, { isBusy: false, error: isTaken ? texts.taken(file.name) : "" });
      if (!isTaken) toastError(error);
    }
  };
  return {
    files: files ?? null,
    checkAgain: (index) => {
      const file = read?.[index];
      if (file) void check(file, index);
    },
    rename: (index, name) => change(index, { name, error: "" }),
    save,
    saveAll: async () => {
      // One after the other: of two with the same name, the first gets it.
      for (const [index, file] of (files ?? []).entries()) if (file.problem === null) await save(index);
    },
  };
}
