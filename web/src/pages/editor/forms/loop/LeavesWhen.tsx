// What ends the loop, as switches.
import { useRef } from "react";
import { useMessages } from "../../../../i18n/messages";
import { Switch } from "../../../../ui/Switch";
import type { NodeTypeSpec } from "../catalogue";
import { useForm } from "../context";
import { FieldView } from "../fields/FieldView";
import { NumberInput } from "../fields/NumberInput";
import { messages } from "../messages";
import { FIRST_PATIENCE, FIRST_SCORE, readExits, writePlateau, writeScore, type Exits } from "./exits";

const AT = ["config"] as const;

export function LeavesWhen({ spec, config }: { spec: NodeTypeSpec; config: unknown }) {
  const texts = useMessages(messages);
  const form = useForm();
  const exits = readExits(config);
  // What a switch has turned off comes back when it is turned on again.
  const before = useRef<Pick<Exits, "score" | "plateau">>({ score: null, plateau: null });
  if (exits.score !== null) before.current.score = exits.score;
  if (exits.plateau !== null) before.current.plateau = exits.plateau;
  const condition = spec.fields.find((one) => one.key === "exit_condition");
  const consensus = spec.fields.find((one) => one.key === "consensus");
  const { score, plateau } = exits;
  const patience = before.current.plateau ?? { gain: 0, rounds: FIRST_PATIENCE };
  return (
    <div className="form-switches">
      <Switch label={texts.roundsReached} aside={texts.always} checked disabled onChange={() => undefined} />
      <div className="form-switch-line">
        <Switch
          label={texts.scoreAtLeast}
          checked={score !== null}
          onChange={(isOn) => form.write(writeScore(isOn ? (before.current.score ?? FIRST_SCORE) : null))}
        />
        {score !== null && (
          <div className="form-control-small">
            <NumberInput
              label={texts.score}
              value={score}
              takesVariable
              onWrite={(next) => form.write(writeScore(next ?? null))}
            />
          </div>
        )}
      </div>
      {condition && (
        <Switch
          label={texts.allAgree}
          aside={texts.consensus}
          checked={exits.byConsensus}
          onChange={(isOn) => form.set(condition, AT, config, isOn ? "consensus" : condition.default)}
        />
      )}
      {exits.byConsensus && consensus && <FieldView field={consensus} at={AT} container={config} />}
      <div className="form-switch-line">
        <Switch
          label={texts.noGain}
          isLabelHidden
          checked={plateau !== null}
          onChange={(isOn) => form.write(writePlateau(isOn ? patience : null))}
        />
        <span className="form-sentence">
          <span>{texts.noGainOf}</span>
          <NumberInput
            label={texts.gain}
            value={plateau?.gain}
            placeholder={String(patience.gain)}
            bounds={{ minimum: 0 }}
            takesVariable
            onWrite={(gain) => form.write(writePlateau({ gain: gain ?? 0, rounds: plateau?.rounds ?? patience.rounds }))}
          />
          <span>{texts.forRounds}</span>
          <NumberInput
            label={texts.roundsWithoutGain}
            value={plateau?.rounds}
            placeholder={String(patience.rounds)}
            isWhole
            bounds={{ minimum: 1 }}
            takesVariable
            onWrite={(rounds) =>
              form.write(writePlateau(rounds === undefined ? null : { gain: plateau?.gain ?? patience.gain, rounds }))
            }
          />
          <span>{texts.rounds}</span>
        </span>
        <span className="switch-aside">{texts.plateau}</span>
      </div>
    </div>
  );
}
