// @vitest-environment happy-dom
import { expect, it } from "vitest";
import type { DrawnEdge } from "../../api/schema";
import { fileName, scaleOf } from "./export";
import { MOST_BYTES, nameOfFile, readFile } from "./import/files";
import { nameIn, pathOfWorkflow } from "./shared";
import { pathOf } from "./StaticDrawing";

it("draws lines and curves", () => {
  const route = [[[1, 2]], [[3, 4]], [[5, 6], [7, 8], [9, 10.5]]];
  expect(pathOf({ route } as unknown as DrawnEdge)).toBe("M1 2L3 4C5 6 7 8 9 10.5");
});

it("finds the name of a workflow in the address of its page", () => {
  for (const name of ["polish", "50% off", "a/b", "茶"]) {
    expect(nameIn(new URL(pathOfWorkflow({ name, group: "" }), "http://x").pathname)).toBe(name);
  }
  expect(nameIn("/workflows/50%")).toBe("50%");
});

it("gives exported files names that every system takes", () => {
  expect(fileName("tea", "yaml")).toBe("tea.yaml");
  expect(fileName("a/b: c?", "svg")).toBe("a-b- c-.svg");
  expect(fileName("../茶.", "png")).toBe("茶.png");
  expect(fileName("", "png")).toBe("workflow.png");
});

it("paints large drawings smaller, so that browsers can", () => {
  expect(scaleOf(400, 300)).toBe(2);
  expect(scaleOf(100, 32_000)).toBe(0.5);
  expect(scaleOf(12_000, 12_000) * 12_000).toBeLessThan(11_000);
});

it("reads only texts", async () => {
  const read = async (name: string, content: BlobPart) => readFile(new File([content], name));
  expect(await read("tea.YAML", "\ufeffgraph:\r\n")).toEqual({ file: "tea.YAML", text: "graph:\r\n", problem: null });
  expect((await read("tea.yml", new Uint8Array([0x67, 0xe9]))).problem).toBe("encoding");
  expect((await read("tea.json", new Uint8Array(MOST_BYTES + 1))).problem).toBe("large");
  expect((await read("tea.json", " \n")).problem).toBe("empty");
  expect((await read("tea.png", "x")).problem).toBe("kind");
});

it("names a workflow after its graph, or after its file", () => {
  expect(nameOfFile("tea.yaml", "polish")).toBe("polish");
  expect(nameOfFile("green.tea.yaml", "workflow")).toBe("green.tea");
  expect(nameOfFile("tea.yaml", "")).toBe("tea");
});
