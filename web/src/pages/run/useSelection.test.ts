import { expect, it } from "vitest";
import { readSelection, writeSelection } from "./useSelection";

it("keeps addresses readable, and reads them back", () => {
  expect(writeSelection("Writer[3]/Reviewer")).toBe("Writer[3]/Reviewer");
  for (const address of ["Planner[2].Coder[3]/Test Gate", "写作[2]/评审", "Fan#2", "100%[1]"]) {
    expect(readSelection(`#${writeSelection(address)}`)).toBe(address);
  }
  expect(readSelection("#100%")).toBe("100%");
});
