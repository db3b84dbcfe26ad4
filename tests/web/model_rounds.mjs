// The figures that the page shows of runs: reads events from standard input, and writes what its model makes of
// them. Vite loads the code of the page as it is.
//
//   node model_rounds.mjs WEB_FOLDER < {"NAME": {"plan": …, "events": […]}, …}
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const root = process.argv[2];
const { createServer } = await import(pathToFileURL(createRequire(`${root}/`).resolve("vite")).href);
const vite = await createServer({
  root,
  configFile: false,
  appType: "custom",
  logLevel: "error",
  server: { middlewareMode: true, ws: false, watch: null },
  optimizeDeps: { noDiscovery: true },
});
const { RunModel, costOf, tokensOf } = await vite.ssrLoadModule("/src/live/run_model.ts");
const { workSeconds } = await vite.ssrLoadModule("/src/live/work.ts");
const { repeatingNodes } = await vite.ssrLoadModule("/src/pages/run/context.ts");

const told = {};
for (const [name, { plan, events }] of Object.entries(JSON.parse(await text(process.stdin)))) {
  const model = new RunModel(repeatingNodes(plan));
  // One by one, as a page that follows the run gets them.
  for (const event of events) if (!model.apply([event])) throw new Error(`${name}: an event is missing`);
  told[name] = {
    status: model.status,
    usage: model.usage,
    work: workSeconds(model.idle, model.started, model.latest),
    exits: Object.fromEntries([...model.loops.values()].map((entry) => [entry.loop, entry.exit?.reason ?? ""])),
    rounds: Object.fromEntries(
      [...model.rounds.values()].map((round) => [round.address, { ...round, tokens: tokensOf(round.usage), cost: costOf(round) }]),
    ),
  };
}
await vite.close();
process.stdout.write(JSON.stringify(told));
