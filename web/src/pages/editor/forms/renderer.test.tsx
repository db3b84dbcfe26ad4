// @vitest-environment happy-dom
// Every field of every object of the catalogue can be seen and written.
import { afterEach, describe, expect, it } from "vitest";
import type { FieldSpec, ObjectSpec } from "./catalogue";
import { FieldView } from "./fields/FieldView";
import { ObjectFields } from "./fields/ObjectFields";
import { wholeWrites } from "./fields/ObjectInput";
import { CATALOGUE, choose, click, editorOf, labelled, loaded, mount, recordingForm, type, withForm, type Mounted } from "./testing/mount";
import { hasNoEffect } from "./values";

let mounted: Mounted | null = null;
afterEach(() => {
  mounted?.end();
  mounted = null;
});

function show(field: FieldSpec, container: unknown) {
  const store = editorOf("graph: {nodes: []}\n");
  const { form, writes } = recordingForm(store);
  mounted = mount(store, withForm(form, <FieldView field={field} at={[]} container={container} />));
  return { element: mounted.element, writes };
}

/** Another value than the default, in the form in which it is typed. */
function sampleOf(field: Pick<FieldSpec, "type" | "bounds">): string {
  if (field.type === "number" || field.type === "integer") return field.bounds.maximum !== undefined && field.bounds.maximum <= 1 ? "0.5" : "7";
  return field.type === "any" ? '{"a": 1}' : "something";
}

const CONTROLS = [
  "input, select, textarea, [role=switch]",
  "button[aria-expanded=false]:not(.form-help-button)",
  "[role=radio][aria-checked=false], .button",
];

/** Uses the first control that there is; opens what is closed, until something is written. */
async function use(element: Element, field: Pick<FieldSpec, "type" | "bounds">, writes: readonly unknown[]): Promise<void> {
  for (let step = 0; step < 6 && writes.length === 0; step++) {
    const control = CONTROLS.map((one) => element.querySelector(one)).find((one) => one !== null);
    if (!control) throw new Error(`there is no control: ${element.innerHTML.slice(0, 300)}`);
    if (control instanceof HTMLSelectElement) {
      const now = control.value;
      choose(control, [...control.options].find((option) => option.value !== now && option.value !== "")?.value ?? "");
    } else if (control.matches("input, textarea")) {
      // A number inside an object.
      const isNumber = control.classList.contains("form-figure") && field.type === "object";
      type(control, sampleOf(isNumber ? { type: "number", bounds: {} } : field));
    } else {
      click(control);
      await loaded();
    }
  }
}

const objects: [string, ObjectSpec][] = [
  ...Object.entries(CATALOGUE.node_types).map(([name, spec]): [string, ObjectSpec] => [`node type ${name}`, spec]),
  ...Object.entries(CATALOGUE.objects),
];

describe("the general form", () => {
  it("knows all node types and objects", () => {
    expect(Object.keys(CATALOGUE.node_types)).toHaveLength(14);
    expect(Object.keys(CATALOGUE.objects)).toHaveLength(61);
  });

  for (const [name, spec] of objects) {
    it(`shows all fields of ${name}`, async () => {
      const store = editorOf("graph: {nodes: []}\n");
      const { form } = recordingForm(store);
      mounted = mount(store, withForm(form, <ObjectFields spec={spec} at={[]} value={{}} />));
      await loaded();
      for (const more of mounted.element.querySelectorAll("button[aria-expanded=false]:not(.form-help-button)")) {
        if (more.textContent === "More") click(more);
      }
      const hidden = new Set([spec.variants?.key, spec.variants?.config, ...(spec.name === "node" ? ["type", "config"] : [])]);
      for (const field of spec.fields) {
        if (hasNoEffect(field) || hidden.has(field.key)) continue;
        expect(mounted.element.textContent, field.key).toContain(field.widget === "condition" ? "Fires" : field.title);
      }
    });
  }

  const fields = objects.flatMap(([name, spec]) =>
    spec.fields.filter((field) => !(field.type === "object" && field.objects.length === 0)).map((field) => [`${name}.${field.key}`, field] as const),
  );
  for (const [name, field] of fields) {
    it(`writes ${name}`, async () => {
      const { element, writes } = show(field, {});
      if (field.widget === "condition") choose(element.querySelector("select") ?? element, "never");
      else await use(element, field, writes);
      expect(writes).toHaveLength(1);
      for (const [path, value] of writes[0] ?? []) {
        expect(path[0]).toBe(field.key);
        expect(value).not.toBeUndefined();
      }
    });
  }

  it("writes the other name of a key where the text has it", () => {
    const profile = CATALOGUE.objects.model_profile;
    const url = profile?.fields.find((one) => one.key === "base_url");
    if (!url) throw new Error("the field is gone");
    const { element, writes } = show(url, { baseUrl: "http://a" });
    type(element.querySelector("input") ?? element, "http://b");
    expect(writes).toEqual([[[["baseUrl"], "http://b"]]]);
  });

  const rounds = CATALOGUE.node_types.loop?.fields.find((one) => one.key === "max_rounds");
  const keep = CATALOGUE.node_types.loop?.fields.find((one) => one.key === "keep");
  if (!rounds || !keep) throw new Error("the fields of the loop are gone");

  it("takes a key away with its value, and where the default returns", () => {
    const { element, writes } = show(rounds, { max_rounds: 5 });
    type(labelled(element, rounds.title), "");
    type(labelled(element, rounds.title), "3");
    expect(writes).toEqual([[[["max_rounds"], undefined]], [[["max_rounds"], undefined]]]);
  });

  it("does not write what is no number, or is out of its bounds", () => {
    const { element, writes } = show(rounds, { max_rounds: 5 });
    type(labelled(element, rounds.title), "many");
    expect(element.textContent).toContain("This is no number.");
    type(labelled(element, rounds.title), "2.5");
    expect(element.textContent).toContain("This is no whole number.");
    type(labelled(element, rounds.title), "0");
    expect(element.textContent).toContain("At least 1.");
    expect(writes).toEqual([]);
    type(labelled(element, rounds.title), "${ROUNDS}");
    expect(writes).toEqual([[[["max_rounds"], "${ROUNDS}"]]]);
  });

  it("shows variables and values of another type as they are", () => {
    const { element, writes } = show(keep, { keep: "${KEEP}" });
    expect(element.textContent).toContain("A variable");
    type(element.querySelector("input") ?? element, "${OTHER}");
    expect(writes).toEqual([[[["keep"], "${OTHER}"]]]);
    mounted?.end();
    const odd = show(rounds, { max_rounds: [1] });
    expect(odd.element.textContent).toContain("not what the field expects");
  });

  it("edits the element of a list that is given alone", () => {
    const any = CATALOGUE.objects.keyword_condition?.fields.find((one) => one.key === "any");
    if (!any) throw new Error("the field is gone");
    const { element, writes } = show(any, { any: "SHIP" });
    type(element.querySelector("input") ?? element, "GO");
    click(labelled(element, "Add to Any of"));
    type(labelled(element, "New entry of Any of"), "NOW");
    expect(writes).toEqual([[[["any"], "GO"]], [[["any"], ["SHIP", "NOW"]]]]);
  });

  it("keeps short forms short, and writes them out when it must", () => {
    const breaker = CATALOGUE.objects.breaker;
    if (!breaker) throw new Error("the object is gone");
    expect(wholeWrites(breaker, ["breaker"], false, [[["breaker", "enabled"], undefined]])).toEqual([[["breaker"], undefined]]);
    expect(wholeWrites(breaker, ["breaker"], undefined, [[["breaker", "enabled"], false]])).toEqual([[["breaker"], false]]);
    expect(wholeWrites(breaker, ["breaker"], true, [[["breaker", "window"], 5]])).toEqual([
      [["breaker"], { enabled: true, window: 5 }],
    ]);
  });

  it("carries shared options over to another variant", () => {
    const split = CATALOGUE.objects.dynamic;
    const field = CATALOGUE.objects.edge?.fields.find((one) => one.key === "dynamic");
    if (!split || !field) throw new Error("the object is gone");
    const store = editorOf("graph: {nodes: []}\n");
    const { form, writes } = recordingForm(store);
    const value = { type: "tree", config: { max_parallel: 4, group_size: 5 } };
    mounted = mount(store, withForm(form, <ObjectFields spec={split} at={["dynamic"]} value={value} />));
    click([...mounted.element.querySelectorAll("[role=radio]")].find((one) => one.getAttribute("aria-checked") === "false"));
    expect(writes).toEqual([
      [
        [["dynamic", "type"], "map"],
        [["dynamic", "config"], { max_parallel: 4 }],
      ],
    ]);
  });
});
