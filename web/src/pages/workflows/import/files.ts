// Files that somebody chooses or drops, as texts of workflows.

/** As many bytes as the server takes characters. */
export const MOST_BYTES = 5_000_000;
/** What the dialog of the browser offers. */
const KINDS = [".yaml", ".yml", ".json"];

export type FileProblem = "kind" | "large" | "encoding" | "empty";

export interface ChosenFile {
  /** The name of the file. */
  file: string;
  text: string;
  problem: FileProblem | null;
}

/** The text of a file, without the mark at the beginning that some programs write. */
export async function readFile(file: File): Promise<ChosenFile> {
  const result = (problem: FileProblem | null, text = "") => ({ file: file.name, text, problem });
  if (!KINDS.some((kind) => file.name.toLowerCase().endsWith(kind))) return result("kind");
  if (file.size > MOST_BYTES) return result("large");
  const bytes = await file.arrayBuffer();
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.trim() === "" ? result("empty") : result(null, text);
  } catch {
    return result("encoding");
  }
}

/** Lets somebody choose files. Nothing happens if none is chosen. */
export function chooseFiles(onChosen: (files: readonly File[]) => void): void {
  const input = document.createElement("input");
  input.type = "file";
  input.multiple = true;
  input.accept = KINDS.join(",");
  input.addEventListener("change", () => {
    if (input.files?.length) onChosen([...input.files]);
  });
  input.click();
}

/** What the server calls a text whose graph has no id. */
const UNNAMED = "workflow";

/** A name for the workflow of a file: that of its graph, else that of the file. */
export function nameOfFile(file: string, workflow: string): string {
  return workflow && workflow !== UNNAMED ? workflow : file.replace(/\.[^.]*$/, "");
}
