// The `loop` node: how many rounds, what else ends the loop, and which round's message leaves it.
import { useMessages } from "../../../../i18n/messages";
import { Segmented } from "../../../../ui/Button";
import { Switch } from "../../../../ui/Switch";
import { useEditor } from "../../store";
import type { NodeTypeSpec } from "../catalogue";
import { useForm } from "../context";
import { Fold } from "../fields/Fold";
import { ObjectFields } from "../fields/ObjectFields";
import { SliderField } from "../fields/SliderField";
import { UnknownKeys } from "../fields/UnknownKeys";
import { Section } from "../Section";
import { messages } from "../messages";
import { valueOf, type Mapping } from "../values";
import { LeavesWhen } from "./LeavesWhen";
import { ScoreSource } from "./ScoreSource";
import { WaysOut } from "./WaysOut";

const AT = ["config"] as const;
const SHOWN = ["max_rounds", "exit_on_score", "score", "patience", "min_delta", "keep", "exit_condition", "consensus", "debug"];

export function LoopForm({ spec, value }: { spec: NodeTypeSpec; value: Mapping }) {
  const texts = useMessages(messages);
  const form = useForm();
  const config = value.config;
  const field = (key: string) => spec.fields.find((one) => one.key === key);
  const [rounds, keep, debug] = [field("max_rounds"), field("keep"), field("debug")];
  const bound = useBound(String(value.id));
  if (!rounds || !keep || !debug) return <ObjectFields spec={spec} at={AT} value={config} />;
  return (
    <>
      <Section>
        <SliderField
          field={rounds}
          title={texts.maxRounds}
          at={AT}
          container={config}
          min={1}
          max={10}
          preset={3}
          help={
            <>
              {texts.roundsHelp} {bound && texts.roundsBound(bound.entry, bound.rounds)}
            </>
          }
        />
      </Section>
      <Section title={texts.leavesWhen}>
        <LeavesWhen spec={spec} config={config} />
      </Section>
      <ScoreSource config={config} id={String(value.id)} />
      <Section>
        <div className="form-line form-line-row">
          <div className="form-title">{texts.handsOn}</div>
          <div className="form-control">
            <Segmented
              label={texts.handsOn}
              choices={[
                { value: "best", text: texts.bestRound },
                { value: "last", text: texts.lastRound },
              ]}
              value={String(valueOf(keep, config) ?? keep.default)}
              onChange={(next) => form.set(keep, AT, config, next)}
            />
          </div>
        </div>
        <Switch
          label={texts.pauseBefore}
          aside={<code>debug: true</code>}
          checked={valueOf(debug, config) === true}
          onChange={(next) => form.set(debug, AT, config, next)}
        />
      </Section>
      <WaysOut ports={spec.ports.filter((port) => port.name !== "error")} />
      <Section>
        <Fold title={texts.more}>
          <ObjectFields spec={{ ...spec, name: "loop_rest" }} at={AT} value={config} skip={SHOWN} hidesUnknown />
        </Fold>
        <UnknownKeys spec={spec} at={AT} value={config} />
      </Section>
    </>
  );
}

/** The bound that the server has proved with this node. */
function useBound(id: string): { entry: string; rounds: number } | null {
  const loops = useEditor((state) => state.check?.loops);
  const found = loops?.find((loop) => loop.bounded_by.some((guard) => guard.guard === id));
  return found?.worst_case_rounds ? { entry: found.id, rounds: found.worst_case_rounds } : null;
}
