// Where the score is in a message, with a text to try it on.
import { useState } from "react";
import { useMessages } from "../../../../i18n/messages";
import { Segmented } from "../../../../ui/Button";
import { useForm } from "../context";
import { LongInput, TextInput } from "../fields/TextInput";
import { RawInput } from "../fields/RawInput";
import { TryOut } from "../fields/TryOut";
import { edgesFrom, edgesTo } from "../graphs";
import { messages } from "../messages";
import { Section } from "../Section";
import { useTry } from "../tryout";
import { isMapping } from "../values";
import { decideOn, readExits, readSource, writeSource, type ScoreSource as Source } from "./exits";

const PATH = ["config", "score"] as const;

export function ScoreSource({ config, id }: { config: unknown; id: string }) {
  const texts = useMessages(messages);
  const form = useForm();
  const value = isMapping(config) ? config.score : undefined;
  const source = readSource(value);
  const [pending, setPending] = useState<Source["kind"] | null>(null);
  const kind = pending ?? source?.kind ?? "cel";
  const write = (next: Source) => {
    setPending(writeSource(next) === undefined && next.kind !== "automatic" ? next.kind : null);
    form.write([[PATH, writeSource(next)]]);
  };
  const choose = (next: Source["kind"]) => {
    // Nothing is written before there is an expression or a pattern.
    if (next === "automatic") write({ kind: "automatic" });
    else setPending(next === source?.kind ? null : next);
  };
  const target = form.targets[0];
  const graph = target?.kind === "node" ? form.document.nodes.get(target.key)?.graph : undefined;
  const sources = graph === undefined ? [] : edgesTo(form.document, graph, id).map((edge) => edge.from);
  return (
    <Section
      title={texts.scoreSource}
      aside={
        <Segmented
          label={texts.scoreSource}
          choices={[
            { value: "automatic", text: texts.automatic },
            { value: "cel", text: "CEL" },
            { value: "regex", text: texts.regex },
          ]}
          value={kind}
          onChange={choose}
        />
      }
    >
      {source === null && pending === null ? (
        <RawInput label={texts.scoreSource} value={value} path={PATH} onWrite={(next) => form.write([[PATH, next]])} />
      ) : kind === "automatic" ? (
        <p className="form-help">{texts.automaticHelp}</p>
      ) : kind === "cel" ? (
        <LongInput
          label={texts.expression}
          isMono
          rows={1}
          placeholder="data.points"
          value={source?.kind === "cel" ? source.expression : ""}
          onWrite={(expression) => write({ kind: "cel", expression })}
        />
      ) : (
        <TextInput
          label={texts.pattern}
          isMono
          placeholder="Score: (\d+)"
          value={source?.kind === "regex" ? source.pattern : ""}
          onWrite={(pattern) => write({ kind: "regex", pattern })}
        />
      )}
      {graph !== undefined && (
        <TryOut nodes={sources} placeholder={'{"score": 85}'}>
          {(text, round) => <Result value={pending === null ? value : undefined} text={text} round={round} config={config} graph={graph} id={id} />}
        </TryOut>
      )}
    </Section>
  );
}

function Result({
  value,
  text,
  round,
  config,
  graph,
  id,
}: {
  value: unknown;
  text: string;
  round: number;
  config: unknown;
  graph: string;
  id: string;
}) {
  const texts = useMessages(messages);
  const form = useForm();
  const tried = useTry("score", value, text, round);
  const exits = readExits(config);
  if (tried.error) return <p className="field-error">{tried.error.message}</p>;
  if (!tried.data) return null;
  if (tried.data.error) return <p className="field-error">{tried.data.error}</p>;
  const score = typeof tried.data.result === "number" ? tried.data.result : null;
  const decision = decideOn(score, exits);
  const target = edgesFrom(form.document, graph, id).find((edge) => edge.port === decision)?.to;
  return (
    <div className="form-verdict">
      <strong>{score ?? "–"}</strong>
      <span className={`form-mark form-mark-${decision}`}>{decision === "exit" ? texts.exit : texts.continue}</span>
      <span className="form-dim">
        {score === null
          ? texts.noScore
          : exits.score === null
            ? texts.noThreshold
            : decision === "exit"
              ? texts.reaches(String(exits.score))
              : texts.below(String(exits.score))}
      </span>
      {target && <span className="form-aside">→ {target}</span>}
    </div>
  );
}
