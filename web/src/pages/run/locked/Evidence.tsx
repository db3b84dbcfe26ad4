// What was said in the last rounds, side by side: a column for each round, a row for each speaker.
import { useMemo, useState } from "react";
import { useMessages } from "../../../i18n/messages";
import { parseAddress } from "../../../live/address";
import type { Execution, RunModel } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button, Segmented } from "../../../ui/Button";
import { Icon, nodeLook } from "../../../ui/Icon";
import { useRunContext } from "../context";
import { markRepeats, type MarkedPart } from "./repeats";
import { messages } from "./messages";
import { MOST_ROUNDS, type LockFacts } from "./useLockFacts";
import type { Texts } from "./words";

/** Longer texts are cut until somebody asks for all of them. */
const LONG = 900;

interface Said {
  execution: Execution;
  parts: readonly MarkedPart[];
}

interface Speaker {
  key: string;
  id: string;
  said: readonly Said[];
}

interface RepeatedMessage {
  address: string;
  repeats?: string;
  changed?: readonly (readonly [string, string])[];
}

/** What the speakers of a loop said in all its rounds, with what they repeated; outside of loops, of the run. */
function speakersOf(model: RunModel, speakers: ReadonlySet<string>, stem: string): Speaker[] {
  const addresses = stem ? (model.loops.get(stem)?.rounds ?? []).flatMap((round) => round.executions) : model.sequence;
  const found = new Map<string, Execution[]>();
  for (const address of addresses) {
    const execution = model.executions.get(address);
    if (!execution?.output || !speakers.has(execution.node_id)) continue;
    const list = found.get(execution.key);
    if (list === undefined) found.set(execution.key, [execution]);
    else list.push(execution);
  }
  return [...found].map(([key, all]) => {
    const executions = all.slice(-MOST_ROUNDS - 8);
    const parts = markRepeats(executions.map((execution) => execution.output ?? ""));
    return {
      key,
      id: executions[0]?.node_id ?? key,
      said: executions.map((execution, index) => ({ execution, parts: parts[index] ?? [] })),
    };
  });
}

export function Evidence({ facts }: { facts: LockFacts }) {
  const texts = useMessages(messages);
  const { store, plan } = useRunContext();
  const [shown, setShown] = useState<"few" | "all">("few");
  const seq = useRun(store, (model) => model.seq);
  const { lock, round } = facts;
  const stem = round?.stem ?? "";
  const last = round?.round ?? 0;
  const speakers = useMemo(
    () => speakersOf(store.getState().model, new Set(plan.speakers), stem),
    [store, plan.speakers, stem, seq],
  );
  const isRepeat = lock.what === "dead_loop";
  const repeated = new Map(((lock.data.messages as RepeatedMessage[] | undefined) ?? []).map((one) => [one.address, one]));
  const columns = useMemo(() => {
    const rounds = new Set(speakers.flatMap((speaker) => speaker.said.map((said) => said.execution.round)));
    if (!stem) return [];
    // The run may have gone on since; the evidence ends with the lock.
    const until = [...rounds].filter((address) => numberOf(address) <= last);
    return until.sort((a, b) => numberOf(a) - numberOf(b)).slice(-MOST_ROUNDS);
  }, [speakers, stem, last]);
  const visible = shown === "few" ? columns.slice(-3) : columns;
  const total = columns.length;
  const isAll = total < MOST_ROUNDS;
  return (
    <section className="locked-evidence">
      <header className="locked-evidence-head">
        <h3 id="locked-evidence-title">{isRepeat ? texts.whatRepeated : texts.lastMessages}</h3>
        <ul className="locked-legend">
          <li>
            <mark className="locked-new">{texts.markNew}</mark>
          </li>
          <li>
            <mark className="locked-said">{texts.markSaid}</mark>
          </li>
          <li>
            <mark className="locked-digits">{texts.markDigits}</mark>
          </li>
        </ul>
        {total > 3 && (
          <Segmented
            label={texts.shown}
            value={shown}
            onChange={setShown}
            choices={[
              { value: "few", text: texts.sideBySide },
              { value: "all", text: isAll ? texts.allRounds(total) : texts.lastRounds(total) },
            ]}
          />
        )}
      </header>
      {!speakers.length ? (
        <p className="locked-none">{texts.noMessages}</p>
      ) : columns.length ? (
        <div className="locked-scroll" role="region" aria-labelledby="locked-evidence-title" tabIndex={0}>
          <table className={`locked-table ${visible.length > 3 ? "locked-table-all" : ""}`}>
            <thead>
              <tr>
                <td />
                {visible.map((address) => (
                  <RoundHead key={address} address={address} facts={facts} />
                ))}
              </tr>
            </thead>
            <tbody>
              {speakers.map((speaker) => (
                <SpeakerRow key={speaker.key} speaker={speaker} columns={visible} repeated={repeated} />
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <Latest speakers={speakers} />
      )}
    </section>
  );
}

function RoundHead({ address, facts }: { address: string; facts: LockFacts }) {
  const texts = useMessages(messages);
  const number = numberOf(address);
  const novelty = facts.rounds.find((one) => one.address === address)?.novelty;
  const stale = facts.lock.what === "dead_loop" && number > (facts.round?.round ?? 0) - Number(facts.lock.data.stale_rounds ?? 0);
  return (
    <th scope="col" className={stale ? "locked-stale" : undefined}>
      <span>{texts.round(number)}</span>
      {novelty != null && <span className="locked-novelty">{texts.novelty(novelty.toFixed(2))}</span>}
    </th>
  );
}

function SpeakerRow({
  speaker,
  columns,
  repeated,
}: {
  speaker: Speaker;
  columns: readonly string[];
  repeated: ReadonlyMap<string, RepeatedMessage>;
}) {
  const texts = useMessages(messages);
  const [isOpen, setOpen] = useState(false);
  const cells = columns.map((round) => speaker.said.filter((said) => said.execution.round === round));
  const isLong = cells.some((cell) => cell.some((said) => (said.execution.output?.length ?? 0) > LONG));
  return (
    <tr>
      <th scope="row">
        <SpeakerName speaker={speaker} />
        {isLong && (
          <Button kind="quiet" icon={isOpen ? "up" : "down"} aria-expanded={isOpen} aria-label={texts.wholeTexts(speaker.id)} onClick={() => setOpen(!isOpen)} />
        )}
      </th>
      {cells.map((cell, index) => (
        <td key={columns[index]} className={isLong && !isOpen ? "locked-cut" : undefined}>
          {cell.length ? (
            cell.map((said) => <Message key={said.execution.address} said={said} repeat={repeated.get(said.execution.address)} />)
          ) : (
            <span className="dim">{texts.silent}</span>
          )}
        </td>
      ))}
    </tr>
  );
}

function SpeakerName({ speaker }: { speaker: Speaker }) {
  const { plan } = useRunContext();
  const look = nodeLook(plan.drawing.nodes.find((node) => node.key === speaker.key)?.type ?? "agent");
  return (
    <span className="locked-speaker">
      <span className="locked-speaker-icon" style={{ color: look.color }}>
        <Icon name={look.icon} size={14} />
      </span>
      {speaker.id}
    </span>
  );
}

function Message({ said, repeat }: { said: Said; repeat: RepeatedMessage | undefined }) {
  const texts = useMessages(messages);
  return (
    <div className="locked-message">
      <p>
        {said.parts.map((part, index) =>
          part.mark === "none" ? (
            part.text
          ) : (
            <mark key={index} className={`locked-${part.mark}`}>
              {part.text}
            </mark>
          ),
        )}
      </p>
      {repeat?.repeats && <p className="locked-repeats">{repeatText(texts, repeat)}</p>}
    </div>
  );
}

function repeatText(texts: Texts, repeat: RepeatedMessage): string {
  const round = parseAddress(repeat.repeats ?? "").rounds.at(-1)?.round;
  const place = round === undefined ? texts.repeats(repeat.repeats ?? "") : texts.repeatsRound(round);
  const changed = (repeat.changed ?? []).map(([before, now]) => `${before} → ${now}`).join(", ");
  return `${place}, ${changed || texts.unchanged}`;
}

/** Outside of loops there are no columns: the last message of each speaker. */
function Latest({ speakers }: { speakers: readonly Speaker[] }) {
  return (
    <dl className="locked-latest">
      {speakers.slice(-6).map((speaker) => {
        const last = speaker.said.at(-1);
        return (
          <div key={speaker.key}>
            <dt>
              <SpeakerName speaker={speaker} />
            </dt>
            <dd>{last && <Message said={last} repeat={undefined} />}</dd>
          </div>
        );
      })}
    </dl>
  );
}

function numberOf(round: string): number {
  return parseAddress(round).rounds.at(-1)?.round ?? 0;
}
