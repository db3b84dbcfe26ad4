// A run as a script: what models, tools and people answered in it.
import { download } from "../ui/download";
import { send } from "./client";

const YAML = "application/yaml";

export async function readRunScript(run: string, signal?: AbortSignal): Promise<string> {
  return (await send(`/runs/${run}/script`, { signal, headers: { accept: YAML } })).text();
}

export async function downloadRunScript(run: string, workflow: string): Promise<void> {
  download(new Blob([await readRunScript(run)], { type: YAML }), `${workflow || run}.script.yaml`);
}
