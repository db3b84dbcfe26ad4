// Why a run is locked: what tripped, the figures, the evidence, and what waits.
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { parseAddress } from "../../../live/address";
import type { Lock } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Failure } from "../../../ui/State";
import { useRunContext } from "../context";
import { Evidence } from "./Evidence";
import { Figures } from "./Figures";
import { figure } from "./limits";
import { messages } from "./messages";
import { NoveltyPlot } from "./NoveltyPlot";
import { triggers } from "./place";
import { useLockFacts, type LockFacts } from "./useLockFacts";
import { useShownLock } from "./useShownLock";
import { explain, titleOf } from "./words";
import "./locked.css";

/** The middle of the page of a locked run. */
export function LockedMain() {
  const lock = useShownLock();
  return lock === undefined ? null : <Shown key={lock.seq} lock={lock} />;
}

function Shown({ lock }: { lock: Lock }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const facts = useLockFacts(lock);
  const points = facts.rounds.flatMap((one) => (one.novelty === null ? [] : [{ round: one.number, novelty: one.novelty }]));
  const threshold = figure(lock.data.threshold);
  return (
    <article className="locked-main" aria-labelledby="locked-title">
      <header className="locked-head">
        <div>
          <h2 id="locked-title">{titleOf(texts, lock.what)}</h2>
          <p>{explain(texts, formats, lock)}</p>
        </div>
        {lock.what === "dead_loop" && points.length > 1 && (
          <NoveltyPlot
            points={points}
            threshold={threshold}
            staleFrom={(facts.round?.round ?? 0) - figure(lock.data.stale_rounds) + 1}
          />
        )}
      </header>
      <Figures facts={facts} />
      <Evidence facts={facts} />
      <div className="locked-foot">
        <Waiting facts={facts} />
        <Earlier lock={lock} />
      </div>
    </article>
  );
}

function Waiting({ facts }: { facts: LockFacts }) {
  const texts = useMessages(messages);
  const { plan } = useRunContext();
  const rows = (facts.state?.queues ?? []).flatMap((queue) => queue.messages.map((message) => ({ queue, message })));
  return (
    <section aria-labelledby="locked-waits">
      <h3 id="locked-waits">{texts.whatWaits}</h3>
      {facts.stateError && <Failure error={facts.stateError} onRetry={facts.retry} />}
      {facts.state !== undefined && !rows.length && <p className="dim">{texts.nothingWaits}</p>}
      <ul className="locked-rows">
        {rows.map(({ queue, message }) => (
          <li key={`${queue.address} ${message.position}`}>
            <span className="strong ellipsis" title={queue.address}>
              {queue.node_id}
            </span>
            <span className="ellipsis" title={message.text}>
              {message.text}
            </span>
            <span className="dim">
              {triggers(plan.drawing, message.source, queue.node_id) ? texts.from(message.source || texts.input) : texts.notTriggering}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Earlier({ lock }: { lock: Lock }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store } = useRunContext();
  const locks = useRun(store, (model) => model.locks);
  const earlier = locks.filter((one) => one.seq < lock.seq).toReversed();
  return (
    <section aria-labelledby="locked-earlier">
      <h3 id="locked-earlier">{texts.earlier}</h3>
      {!earlier.length && <p className="dim">{texts.noEarlier}</p>}
      <ul className="locked-rows locked-rows-earlier">
        {earlier.map((one) => {
          const round = parseAddress(one.address).rounds.at(-1);
          const what = texts.earlierLock(titleOf(texts, one.what), round === undefined ? "" : texts.roundsFromTo(round.round, round.round));
          const words = one.unlocked === null ? texts.stillLocked : `${one.unlocked.by || "–"}: “${one.unlocked.reason}”`;
          return (
            <li key={one.seq}>
              <time title={formats.full(one.at)}>{formats.short(one.at)}</time>
              <span title={`${what}. ${words}`}>
                {what}. <span className="dim">{words}</span>
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
