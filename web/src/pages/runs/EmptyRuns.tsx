// The list of a store without runs: what to do first.
import { useMe } from "../../api/queries";
import { catalogue, useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { prepareTemplate } from "../start/draft";
import { useTemplates } from "../workflows/templates";
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

const MOST_EXAMPLES = 2;

export default function EmptyRuns({ onStart }: { onStart: () => void }) {
  const texts = useMessages(messages);
  const role = useMe().data?.role;
  const isAuthor = role === "author" || role === "admin";
  const templates = useTemplates(isAuthor);
  const examples = templates.data?.templates.filter(({ ok }) => ok).slice(0, MOST_EXAMPLES) ?? [];
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
