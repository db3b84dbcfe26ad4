// The list of a store without runs: what to do first.
import { useQuery } from "@tanstack/react-query";
import { call } from "../../api/client";
import { useMe } from "../../api/queries";
import type { TemplateList, TemplateView } from "../../api/schema";
import { catalogue, useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { prepareTemplate } from "../start/draft";
import "./empty_runs.css";

const messages = catalogue(
  {
    nothingYet: "No run has been started here yet.",
    examples: "Or begin with an example, which needs no model:",
    useExample: "Use this example",
    start: "Start run",
  },
  {
    nothingYet: "这里还没有启动过任何运行。",
    examples: "或者从示例开始，示例不需要模型：",
    useExample: "使用此示例",
    start: "启动运行",
  },
);

/** The examples that say most about loops. */
const FIRST = ["review_loop", "polish"];

export function pickExamples(templates: readonly TemplateView[]): TemplateView[] {
  const usable = templates.filter((template) => template.ok);
  const first = FIRST.flatMap((name) => usable.filter((template) => template.name === name));
  return [...new Set([...first, ...usable])].slice(0, 2);
}

export default function EmptyRuns({ onStart }: { onStart: () => void }) {
  const texts = useMessages(messages);
  const role = useMe().data?.role;
  const isAuthor = role === "author" || role === "admin";
  const templates = useQuery({
    queryKey: ["templates"],
    queryFn: () => call<TemplateList>("/templates"),
    staleTime: 600_000,
    enabled: isAuthor,
  });
  const examples = pickExamples(templates.data?.templates ?? []);
  return (
    <div className="runs-empty">
      <p>{texts.nothingYet}</p>
      {role !== "viewer" && (
        <Button kind="primary" icon="plus" hint="N" onClick={onStart}>
          {texts.start}
        </Button>
      )}
      {examples.length > 0 && (
        <>
          <p className="dim">{texts.examples}</p>
          <div className="runs-examples">
            {examples.map((example) => (
              <section key={example.name} className="runs-example">
                {/* As an image: the styles inside of a picture are no styles of the page. */}
                <div className="runs-picture">
                  <img alt="" src={`data:image/svg+xml,${encodeURIComponent(example.svg)}`} />
                </div>
                <h2>{example.name}</h2>
                <p>{example.title}</p>
                <Button
                  aria-label={`${texts.useExample}: ${example.name}`}
                  onClick={() => {
                    prepareTemplate(example.name);
                    onStart();
                  }}
                >
                  {texts.useExample}
                </Button>
              </section>
            ))}
          </div>
        </>
      )}
    </div>
  );
}
