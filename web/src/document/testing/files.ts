/// <reference types="node" />
// The workflow files that the tests edit.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface TestFile {
  name: string;
  text: string;
  /** How many of its values are edited. */
  share?: number;
}

const HERE = import.meta.dirname;
const EXAMPLES = join(HERE, "../../../../examples");
const SAMPLES = join(HERE, "../samples");

function filesIn(folder: string): TestFile[] {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => /\.(ya?ml|json)$/.test(name));
  return names.sort().map((name) => ({ name, text: readFileSync(join(folder, name), "utf8") }));
}

export const examples = (): TestFile[] => filesIn(EXAMPLES).filter(({ text }) => /^graph:/m.test(text));

/** The samples, each with other line endings, without a last line break, and with a byte order mark, too. */
export function samples(): TestFile[] {
  return filesIn(SAMPLES).flatMap(({ name, text }) => [{ name, text }, ...variants(name, text).map((file) => ({ ...file, share: 0.2 }))]);
}

function variants(name: string, text: string): TestFile[] {
  return [
    { name: `${name} CRLF`, text: text.replaceAll("\n", "\r\n") },
    { name: `${name} CR`, text: text.replaceAll("\n", "\r") },
    { name: `${name} mixed`, text: text.split("\n").map((line, index) => line + (index % 3 ? "\n" : "\r\n")).join("") },
    { name: `${name} no end`, text: text.trimEnd() },
    { name: `${name} BOM`, text: `\ufeff${text}` },
  ];
}

/** Files of others, from the folder that ROUNDEL_CORPUS names. */
export const corpus = (): TestFile[] => (process.env.ROUNDEL_CORPUS ? filesIn(process.env.ROUNDEL_CORPUS).map((file) => ({ ...file, share: 0.5 })) : []);
