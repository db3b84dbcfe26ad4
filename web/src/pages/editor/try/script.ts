// A script to begin with: example replies for the agents of a workflow, and lines to fill in for its people.
import type { Drawing } from "../../../api/schema";
import type { NodeItem, WorkflowDocument } from "../../../document/model";
import { answerEdges, quickAnswers, targetOf } from "../../run/people/answers";

export interface ScriptWords {
  /** What a script is for, as comments of it. */
  head: string;
  /** Above the lines of people, which are comments. */
  people: string;
  reply: (node: string, number: number) => string;
}

/** The script that a workflow is tried with until somebody writes another one. People are left out, so that the
 * run asks whoever tries it. */
export function suggestedScript(workflow: Pick<WorkflowDocument, "nodes">, drawing: Drawing | null, words: ScriptWords): string {
  const agents = new Map<string, string>();
  const people = new Map<string, string>();
  for (const node of workflow.nodes.values()) {
    if (node.type === "agent") agents.set(node.id, entry(node.id, agentReplies(node, drawing, words)));
    // The last answer repeats, so one that leaves the loop is enough.
    else if (node.type === "human") people.set(node.id, entry(node.id, [closing(node.key, drawing) ?? words.reply(node.id, 1)]));
  }
  const lines = [`# ${words.head}`, ...agents.values()];
  if (people.size > 0) lines.push(`# ${words.people}`, ...[...people.values()].map((line) => `# ${line}`));
  return `${lines.join("\n")}\n`;
}

/** What is sent as the script. An empty text would mean that there is none, and models would be called. */
export function scriptToSend(text: string): string {
  return text.trim() === "" ? "{}" : text;
}

function agentReplies(node: NodeItem, drawing: Drawing | null, words: ScriptWords): unknown[] {
  const config = node.value.config;
  const schema = isObject(config) ? config.output_schema : undefined;
  if (isObject(schema)) return [{ data: exampleOf(schema) }];
  return [words.reply(node.id, 1), closing(node.key, drawing) ?? words.reply(node.id, 2)];
}

/** A text that an edge of the node waits for; one that leaves a loop if there is such an edge. */
function closing(key: string, drawing: Drawing | null): string | undefined {
  if (drawing === null) return undefined;
  const edges = answerEdges(drawing.edges, key);
  const leaving = edges.filter((edge) => targetOf(edge, drawing.nodes).effect === "leaves");
  return (quickAnswers(leaving, drawing.nodes, [])[0] ?? quickAnswers(edges, drawing.nodes, [])[0])?.text;
}

/** JSON is YAML, whatever characters a name or a reply has. */
function entry(id: string, replies: readonly unknown[]): string {
  const name = /^[A-Za-z_][\w-]*$/.test(id) && !/^(?:null|true|false|yes|no|on|off|y|n)$/i.test(id) ? id : JSON.stringify(id);
  return `${name}: [${replies.map((reply) => JSON.stringify(reply)).join(", ")}]`;
}

/** How deep an example goes; schemas may refer to themselves. */
const DEEPEST = 5;

/** A value that fits a JSON schema, as far as its types, choices and bounds say. */
export function exampleOf(schema: unknown, depth = 0): unknown {
  if (!isObject(schema) || depth > DEEPEST) return null;
  if ("default" in schema) return schema.default;
  if ("const" in schema) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0] as unknown;
  const type: unknown = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case "string":
      return "text";
    case "integer":
    case "number":
      return typeof schema.minimum === "number" ? schema.minimum : 1;
    case "boolean":
      return true;
    case "null":
      return null;
    case "array":
      return [exampleOf(schema.items ?? { type: "string" }, depth + 1)];
    default: {
      const properties = isObject(schema.properties) ? schema.properties : {};
      return Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, exampleOf(one, depth + 1)]));
    }
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
