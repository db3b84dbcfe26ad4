// A workflow as a file: its text as it is, or its drawing as the server has laid it out.
import { send } from "../../api/client";
import { isDark } from "../../app/theme";
import { download } from "../../ui/download";
import type { Format } from "./formats";

/** Pixels of a picture for each unit of the drawing. */
const SCALE = 2;
/** What every browser can paint; larger drawings become smaller. */
const MOST_SIDE = 16_000;
const MOST_PIXELS = 120_000_000;

export async function exportFile(format: Format, name: string, text: string): Promise<void> {
  download(await fileOf(format, name, text), fileName(name, format));
}

async function fileOf(format: Format, name: string, text: string): Promise<Blob> {
  if (format === "yaml") return new Blob([text], { type: "application/yaml" });
  // A file follows the scheme of whoever opens it. Pixels cannot, so they have the one of this page.
  const scheme = format === "svg" ? "auto" : isDark() ? "dark" : "light";
  const answer = await send("/picture", { body: { text, name, scheme } });
  const svg = await answer.text();
  return format === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : paint(svg);
}

async function paint(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  await image.decode();
  const scale = scaleOf(image.naturalWidth, image.naturalHeight);
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.floor(image.naturalWidth * scale));
  canvas.height = Math.max(1, Math.floor(image.naturalHeight * scale));
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the browser could not paint the drawing"))), "image/png");
  });
}

export function scaleOf(width: number, height: number): number {
  return Math.min(SCALE, MOST_SIDE / Math.max(width, height), Math.sqrt(MOST_PIXELS / (width * height)));
}

/** A name that every system takes. */
export function fileName(name: string, format: Format): string {
  const plain = name.replace(/[\\/:*?"<>|\u0000-\u001f]+/g, "-").replace(/^[.\s-]+|[.\s]+$/g, "");
  return `${plain || "workflow"}.${format}`;
}
