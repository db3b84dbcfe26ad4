// Reads and edits texts for tests in Python (tests/web/test_document.py). A request is a list of texts with calls of
// the functions of edits.ts; the answer says what is read, before and after each call.
import { dirname, join } from "node:path";
import { text as readAll } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
const load = async (name) => (await runnerImport(join(root, "src/document", name), { root, configFile: false, logLevel: "error" })).module;
const [{ readDocument }, edits, { applied }] = [await load("read.ts"), await load("edits.ts"), await load("model.ts")];

const view = ({ text, value, errors, nodes, graphs }) => ({
  text,
  value,
  errors,
  keys: [...nodes.keys()],
  nodes: [...nodes.values()].map(({ key, path }) => ({ key, path })),
  graphs: [...graphs.keys()],
});

const answers = JSON.parse(await readAll(process.stdin)).map(({ text, calls = [] }) => {
  const document = readDocument(text);
  const results = calls.map(([name, ...given]) => {
    const made = edits[name](document, ...given);
    return view(readDocument(applied(text, "changes" in made ? made.changes : made)));
  });
  return { ...view(document), results };
});
process.stdout.write(JSON.stringify(answers));
