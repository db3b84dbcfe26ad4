// @vitest-environment happy-dom
// Limits, breaker, model profiles and memories as forms of their own.
import { afterEach, describe, expect, it } from "vitest";
import { applied, type WorkflowDocument } from "../../../../document/model";
import { setValues } from "../../../../document/edits";
import { readDocument } from "../../../../document/read";
import { ObjectBody } from "../fields/ObjectInput";
import { CATALOGUE, choose, click, editorOf, labelled, loaded, mount, recordingForm, type, withForm, type Mounted } from "../testing/mount";
import { LONGEST } from "./BreakerForm";
import { modelsIn, usersOfMemory, usersOfProfile } from "./uses";

const TEXT = `models:
  default: {model: openai:gpt-4o}
  cheap: {model: openai:small, fallback: [default]}
graph:
  nodes:
    - {id: Coder, type: agent, config: {profile_id: cheap, memories: [board, {name: notes, write: false}]}}
    - {id: Tester, type: agent, config: {model: "anthropic:big", memories: [{name: board, read: false}]}}
    - {id: Final, type: passthrough}
  memory:
    - {name: board, type: blackboard}
  start: Coder
`;

let mounted: Mounted | null = null;
afterEach(() => {
  mounted?.end();
  mounted = null;
});

/** Shows the form of an object, and what each edit makes of the text. */
async function show(name: string, path: (string | number)[], value: unknown, text = TEXT) {
  const spec = CATALOGUE.objects[name];
  if (!spec) throw new Error(`the object ${name} is gone`);
  const store = editorOf(text);
  const { form, writes } = recordingForm(store);
  mounted = mount(store, withForm({ ...form, names: { ...form.names, models: ["default", "cheap"], memories: ["board", "working"] } }, <ObjectBody spec={spec} path={path} value={value} />));
  await loaded();
  return { element: mounted.element, writes, says: () => [...(mounted?.element.querySelectorAll(".settings-says") ?? [])].map((one) => one.textContent) };
}

const after = (document: WorkflowDocument, writes: Parameters<typeof setValues>[1]) => applied(document.text, setValues(document, writes));

describe("limits", () => {
  it("say in words when they lock the run", async () => {
    const { says } = await show("limits", ["limits"], { tokens: 60_000, cost_usd: 0.5, seconds: 900, rounds: 20, tokens_per_call: "${MOST}" });
    expect(says()).toEqual([
      "Locks the run after $0.50.",
      "Locks the run after 60,000 tokens.",
      "Locks the run if one call of a model takes more than ${MOST} tokens.",
      "Locks the run if a loop has not ended after 20 rounds.",
      expect.stringMatching(/^Locks the run after 15.m of work\.$/),
    ]);
  });

  it("say where they hold", async () => {
    const { says } = await show("limits", ["loops", "Coder", "limits"], { tokens: 10 });
    expect(says()).toEqual(["Locks the run after 10 tokens in this loop."]);
  });

  it("are turned on and off with their switch, and keep the amount", async () => {
    const { element, writes, says } = await show("limits", ["limits"], { tokens: 60_000 });
    click(element.querySelector("[role=switch][aria-checked=true]"));
    expect(writes).toEqual([[[["limits", "tokens"], undefined]]]);
    const label = [...element.querySelectorAll("label")].find((one) => one.textContent === "Cost");
    click(document.getElementById(label?.htmlFor ?? ""));
    expect(writes[1]).toEqual([[["limits", "cost_usd"], 1]]);
    mounted?.end();
    expect(says()).toEqual([]);
    const none = await show("limits", ["limits"], undefined);
    expect(none.says()[0]).toContain("Nothing is limited here");
  });

  it("show what is no number as text, and keys that nobody knows", async () => {
    const { element } = await show("limits", ["limits"], { tokens: [1], x_ours: 1 });
    expect(element.textContent).toContain("not what the field expects");
    expect(element.querySelector(".form-unknown")?.textContent).toContain("x_ours");
  });
});

describe("the breaker", () => {
  it("says what locks the run, with the defaults of the server", async () => {
    const { says, element } = await show("breaker", ["breaker"], undefined);
    expect(says()[0]).toMatch(/at least 3 messages, in two rounds in a row, bring less than 10.% of new words/);
    expect(says()[1]).toContain("3 times as many tokens");
    expect(says()[2]).toMatch(/after 10.m of work, plus what its timers take/);
    expect(labelled(element, "Window").getAttribute("placeholder")).toBe("3");
  });

  it("has the time without timers that the server names", () => {
    const seconds = CATALOGUE.objects.breaker?.fields.find((one) => one.key === "seconds");
    expect(seconds?.description).toContain(`If not set: ${LONGEST}, plus`);
  });

  it("is off as `false`, and on again without a trace", async () => {
    const on = await show("breaker", ["breaker"], undefined);
    click(on.element.querySelector("[role=switch]"));
    expect(on.writes).toEqual([[[["breaker"], false]]]);
    mounted?.end();
    const off = await show("breaker", ["breaker"], false);
    expect(off.says()).toEqual(["Nothing watches the run. Only its limits and the bounds of its loops end it."]);
    expect(off.element.querySelectorAll("[role=switch]")).toHaveLength(1);
    click(off.element.querySelector("[role=switch]"));
    expect(off.writes).toEqual([[[["breaker"], undefined]]]);
  });

  it("keeps the settings of a guard that is off", async () => {
    const { element, writes } = await show("breaker", ["breaker"], { dead_loop: false, window: 5, factor: "${FACTOR}" });
    expect(element.textContent).toContain("goes on until something else ends it");
    expect(element.textContent).toContain("${FACTOR} times as many tokens");
    const label = [...element.querySelectorAll("label")].find((one) => one.textContent === "Dead loops");
    click(document.getElementById(label?.htmlFor ?? ""));
    expect(writes).toEqual([[[["breaker", "dead_loop"], undefined]]]);
  });

  it("shows a variable in the place of a switch", async () => {
    const { element, writes } = await show("breaker", ["breaker"], { token_surge: "${SURGE}" });
    expect(element.textContent).toContain("A variable");
    type([...element.querySelectorAll("input")].find((one) => one.value === "${SURGE}") ?? element, "${OTHER}");
    expect(writes).toEqual([[[["breaker", "token_surge"], "${OTHER}"]]]);
  });
});

describe("a model profile", () => {
  it("says who uses it, and what comes next", async () => {
    const cheap = await show("model_profile", ["models", "cheap"], { model: "openai:small", fallback: ["default"] });
    expect(cheap.says()).toContain("Used by Coder.");
    expect(cheap.says()).toContain("Then default, in this order.");
    const offered = [...cheap.element.querySelectorAll(".form-chip-add option")].map((one) => one.getAttribute("value"));
    // Neither itself, nor what is chosen already.
    expect(offered.filter(Boolean)).toEqual([]);
    mounted?.end();
    const preset = await show("model_profile", ["models", "default"], { model: "openai:gpt-4o" });
    expect(preset.says()).toContain("Used by all agents that name no profile.");
    expect(preset.says()).toContain("Then the agent fails, after its retries.");
  });

  it("offers the models of the file, and writes only what is typed", async () => {
    const { element, writes } = await show("model_profile", ["models", "cheap"], { model: "openai:small", x: 1 });
    const list = element.querySelector("input[list]")?.getAttribute("list") ?? "";
    expect([...(document.getElementById(list)?.children ?? [])].map((one) => one.getAttribute("value"))).toEqual(["anthropic:big", "openai:gpt-4o", "openai:small"]);
    type(labelled(element, "Model"), "openai:gpt-4o");
    expect(writes).toEqual([[[["models", "cheap", "model"], "openai:gpt-4o"]]]);
    expect(after(readDocument(TEXT), writes[0] ?? [])).toBe(TEXT.replace("openai:small", "openai:gpt-4o"));
  });

  it("warns of a key in the text, and not of a variable", async () => {
    const open = await show("model_profile", ["models", "a"], { api_key: "sk-123" });
    expect(open.element.querySelector(".field-error")?.textContent).toContain("Write a variable instead");
    mounted?.end();
    const hidden = await show("model_profile", ["models", "a"], { api_key: "${KEY}" });
    expect(hidden.element.querySelector(".field-error")).toBeNull();
  });

  it("shows provider and name where the text has them apart", async () => {
    const { element } = await show("model_profile", ["models", "a"], { provider: "openai", name: "gpt-4o" });
    expect((labelled(element, "Provider") as HTMLInputElement).value).toBe("openai");
    expect((labelled(element, "Model name") as HTMLInputElement).value).toBe("gpt-4o");
  });
});

describe("memories", () => {
  it("say what they are, and who uses them", async () => {
    const { says } = await show("memory", ["memory", 0], { name: "board", type: "blackboard" });
    expect(says()).toEqual(["The latest answers of agents.", "Used by Coder, Tester (writes)."]);
    mounted?.end();
    expect((await show("memory", ["memory", 0], { name: "other", type: "simple" })).says()[1]).toContain("No agent uses it yet");
  });

  it("of an agent are chosen by name, and written out only when they must", async () => {
    const short = await show("memory_use", ["memories", 0], "board");
    expect(short.says()[0]).toBe("Before it answers, the agent reads up to 3 entries. Its answer is added.");
    choose(labelled(short.element, "Memory"), "working");
    expect(short.writes).toEqual([[[["memories", 0], "working"]]]);
    click(labelled(short.element, "Write"));
    expect(short.writes[1]).toEqual([[["memories", 0], { name: "board", write: false }]]);
    mounted?.end();
    const both = await show("memory_use", ["memories", 0], { name: "lost", read: false, write: false, similarity_threshold: 0.4 });
    expect(both.says()[0]).toBe("The agent neither reads nor writes it.");
    expect(both.element.textContent).toContain("lost (does not exist)");
    // A setting that is written is shown, also if it has no effect now.
    const label = [...both.element.querySelectorAll("label")].find((one) => one.textContent === "Least similarity");
    click(document.getElementById(label?.htmlFor ?? ""));
    expect(both.writes).toEqual([[[["memories", 0, "similarity_threshold"], undefined]]]);
  });

  it("of a file say what runs share", async () => {
    const { says } = await show("memory_settings", ["memory"], { group_id: "tea", newest: 10, confidence: "${SURE}" });
    expect(says()[0]).toBe("Runs of the group tea share a working memory and a long-term memory.");
    expect(says()[1]).toMatch(/newest 10 entries for 1.d, if a node is at least \$\{SURE\} sure/);
    expect(says()[2]).toMatch(/more than 5.s/);
  });

  it("are counted by who names them", () => {
    const document = readDocument(TEXT);
    expect(usersOfProfile(document, "cheap")).toEqual(["Coder"]);
    expect(usersOfMemory(document, "board")).toEqual([
      { id: "Coder", reads: true, writes: true },
      { id: "Tester", reads: false, writes: true },
    ]);
    expect(usersOfMemory(document, "notes")).toEqual([{ id: "Coder", reads: true, writes: false }]);
    expect(modelsIn(document)).toEqual(["anthropic:big", "openai:gpt-4o", "openai:small"]);
  });
});
