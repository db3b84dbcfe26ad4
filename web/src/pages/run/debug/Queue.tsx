// The messages that wait at a node: one can be edited, and is compared with what the node got before.
import { useMemo, useState } from "react";
import { ApiError } from "../../../api/client";
import { keys, queryClient } from "../../../api/queries";
import type { WaitingMessage } from "../../../api/schema";
import { useKeys } from "../../../app/keys";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { parseAddress } from "../../../live/address";
import { nodeKey } from "../../../live/path";
import { tokensOf } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button } from "../../../ui/Button";
import { lineDiff, looksLikeCode, WordDiff } from "../../../ui/diff/WordDiff";
import { useRunContext } from "../context";
import { triggers } from "../locked/place";
import { messages } from "./messages";
import { changedLines, receivedBefore } from "./paused";
import { editKey, saveEdit, useUnsavedEdit } from "./unsaved";
import type { ShownNode } from "./usePaused";

export function Queue({ node }: { node: ShownNode }) {
  const texts = useMessages(messages);
  const { mayControl } = useRunContext();
  const waiting = node.messages.filter((message) => !message.keep);
  const kept = node.messages.filter((message) => message.keep);
  const last = waiting.at(-1) ?? kept.at(-1);
  const [opened, setOpened] = useState<number | null>(null);
  const position = opened ?? last?.position;
  const edited = node.messages.find((message) => message.position === position);
  return (
    <>
      {!node.messages.length && <p className="dim">{texts.empty}</p>}
      {waiting.map((message) => (
        <Message
          key={message.position}
          node={node}
          message={message}
          isOpen={mayControl && message.position === position}
          onOpen={() => setOpened(message.position)}
        />
      ))}
      {edited !== undefined && <Difference node={node} message={edited} />}
      {kept.length > 0 && (
        <div className="debug-kept">
          <h4>{texts.kept}</h4>
          {kept.map((message) =>
            message.position === opened && mayControl ? (
              <Message key={message.position} node={node} message={message} isOpen onOpen={() => setOpened(message.position)} />
            ) : (
              <div key={message.position} className="debug-kept-row">
                <span className="strong">{message.source || texts.input}</span>
                <span className="ellipsis" title={message.text}>
                  {message.text}
                </span>
                {mayControl && (
                  <Button kind="quiet" icon="edit" onClick={() => setOpened(message.position)} aria-label={`${texts.edit}: ${texts.messageText(message.position + 1, node.nodeId)}`} />
                )}
              </div>
            ),
          )}
        </div>
      )}
    </>
  );
}

function Message({ node, message, isOpen, onOpen }: { node: ShownNode; message: WaitingMessage; isOpen: boolean; onOpen: () => void }) {
  const texts = useMessages(messages);
  const { runId, store, plan, mayControl } = useRunContext();
  const wasEdited = useRun(store, (model) => model.edits.some((edit) => edit.address === node.address));
  const draft = useUnsavedEdit((state) => state.edits[editKey({ runId, address: node.address, position: message.position })]);
  const doesTrigger = triggers(plan.drawing, message.source, node.nodeId);
  const code = looksLikeCode(draft?.text ?? message.text);
  return (
    <div className="debug-message">
      <div className="debug-message-head">
        <span className="debug-tag">{message.keep ? texts.keptRow : texts.waitingTag}</span>
        <span>
          {texts.from(message.source || texts.input)}
          <span className="dim">, {doesTrigger ? texts.triggersIt(node.nodeId) : texts.triggersNot}</span>
        </span>
        <code className="dim ellipsis">{node.address}</code>
        <span className="debug-message-side">
          {draft !== undefined ? <span className="debug-tag debug-tag-edited">{texts.unsaved}</span> : wasEdited && <span className="debug-tag debug-tag-edited">{texts.edited}</span>}
          {draft !== undefined && (
            <Button kind="quiet" icon="retry" onClick={() => useUnsavedEdit.getState().drop(editKey(draft))}>
              {texts.takeBack}
            </Button>
          )}
          {!isOpen && mayControl && (
            <Button kind="quiet" icon="edit" onClick={onOpen} aria-label={`${texts.edit}: ${texts.messageText(message.position + 1, node.nodeId)}`}>
              {texts.edit}
            </Button>
          )}
        </span>
      </div>
      {isOpen ? <Editor node={node} message={message} /> : <pre className={`debug-text ${code ? "" : "debug-prose"}`}>{draft?.text ?? message.text}</pre>}
      {message.data !== null && (
        <details className="debug-data">
          <summary>{texts.fields}</summary>
          <pre>{JSON.stringify(message.data, null, 2)}</pre>
        </details>
      )}
    </div>
  );
}

function Editor({ node, message }: { node: ShownNode; message: WaitingMessage }) {
  const texts = useMessages(messages);
  const { runId } = useRunContext();
  const [isSaving, setSaving] = useState(false);
  const [error, setError] = useState("");
  const place = { runId, address: node.address, position: message.position };
  const key = editKey(place);
  const draft = useUnsavedEdit((state) => state.edits[key]);
  const text = draft?.text ?? message.text;
  const isStale = draft !== undefined && draft.version !== message.version;
  const change = (now: string) => {
    const { put, drop } = useUnsavedEdit.getState();
    const version = draft?.version ?? message.version;
    if (now === message.text && version === message.version) drop(key);
    else put({ ...place, nodeId: node.nodeId, version, text: now });
  };
  const save = async () => {
    if (draft === undefined || isSaving || isStale) return;
    setSaving(true);
    setError("");
    try {
      await saveEdit(draft);
    } catch (problem) {
      // The new state has their text, and the editor then offers both.
      if (problem instanceof ApiError && problem.type === "stale") await queryClient.invalidateQueries({ queryKey: keys.state(runId) });
      else setError(problem instanceof Error ? problem.message : String(problem));
    }
    setSaving(false);
  };
  useKeys([{ keys: "Ctrl Enter", text: texts.save, action: () => void save() }]);
  const code = looksLikeCode(text);
  const rows = Math.min(16, Math.max(3, text.split("\n").length + 1, Math.ceil(text.length / 90)));
  return (
    <>
      <textarea
        className={`input debug-editor ${code ? "mono" : ""}`}
        aria-label={texts.messageText(message.position + 1, node.nodeId)}
        rows={rows}
        spellCheck={!code}
        value={text}
        onChange={(event) => change(event.target.value)}
      />
      {isStale ? (
        <Stale theirs={message} mine={draft} editKey={key} />
      ) : (
        draft !== undefined && (
          <div className="debug-was">
            {code ? <WasLines before={message.text} after={text} /> : <WasWords before={message.text} after={text} />}
            <p className="dim">{texts.keptAsYours(node.nodeId)}</p>
          </div>
        )
      )}
      <div className="debug-save">
        <Button kind={draft === undefined || isStale ? "plain" : "primary"} onClick={() => void save()} disabled={draft === undefined || isStale} isBusy={isSaving}>
          {isSaving ? texts.saving : texts.save}
        </Button>
        {error && (
          <p className="field-error" role="alert">
            {error}
          </p>
        )}
        <Costs node={node} />
      </div>
    </>
  );
}

function WasWords({ before, after }: { before: string; after: string }) {
  const texts = useMessages(messages);
  return (
    <>
      <span className="dim">{texts.was}</span> <WordDiff before={before} after={after} />
    </>
  );
}

/** More changed lines than this are only counted. */
const SHOWN_LINES = 4;

function WasLines({ before, after }: { before: string; after: string }) {
  const texts = useMessages(messages);
  const lines = useMemo(() => changedLines(before, after), [before, after]);
  if (!lines.length) return <p className="dim">{texts.onlyAdded}</p>;
  return (
    <ul>
      {lines.slice(0, SHOWN_LINES).map((line) => (
        <li key={line.number}>
          <span className="dim">{texts.was}</span> <del>{line.text || " "}</del> <span className="dim">{texts.inLine(line.number)}</span>
        </li>
      ))}
      {lines.length > SHOWN_LINES && <li className="dim">{texts.moreLines(lines.length - SHOWN_LINES)}</li>}
    </ul>
  );
}

/** Somebody else has changed the message: both texts, and a choice. */
function Stale({ theirs, mine, editKey: key }: { theirs: WaitingMessage; mine: { text: string; version: string }; editKey: string }) {
  const texts = useMessages(messages);
  const edits = useUnsavedEdit.getState();
  return (
    <div className="debug-stale" role="alert">
      <p>{texts.conflict}</p>
      <p className="dim">{texts.theirs}</p>
      <WordDiff before={theirs.text} after={mine.text} kind={looksLikeCode(theirs.text) ? "lines" : "words"} />
      <div className="debug-save">
        <Button onClick={() => edits.drop(key)}>{texts.useTheirs}</Button>
        <Button
          onClick={() => {
            const edit = useUnsavedEdit.getState().edits[key];
            if (edit !== undefined) edits.put({ ...edit, version: theirs.version });
          }}
        >
          {texts.keepMine}
        </Button>
      </div>
    </div>
  );
}

/** What the node's last run took, as the best guess for the next. */
function Costs({ node }: { node: ShownNode }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store } = useRunContext();
  const last = useRun(store, (model) => {
    const key = nodeKey(node.address, model.composites);
    const address = model.sequence.findLast((one) => {
      const execution = model.executions.get(one);
      return execution?.key === key && tokensOf(execution.usage) > 0;
    });
    return model.executions.get(address ?? "");
  });
  if (last === undefined) return null;
  const cost = last.usage.cost_usd === null ? "" : formats.cost(last.usage.cost_usd);
  return <span className="dim debug-costs">{texts.ifItRuns(formats.number(tokensOf(last.usage)), cost)}</span>;
}

function Difference({ node, message }: { node: ShownNode; message: WaitingMessage }) {
  const texts = useMessages(messages);
  const { runId, store } = useRunContext();
  const seq = useRun(store, (model) => model.seq);
  const draft = useUnsavedEdit((state) => state.edits[editKey({ runId, address: node.address, position: message.position })]);
  const before = useMemo(
    () => receivedBefore(store.getState().model, node.address, message.source),
    [store, node.address, message.source, seq],
  );
  const [chosen, setChosen] = useState("");
  const other = before.find((one) => one.address === chosen) ?? before[0];
  const now = draft?.text ?? message.text;
  const changed = useMemo(() => {
    const lines = other === undefined ? [] : lineDiff(other.text, now);
    const of = (...kinds: string[]) => lines.filter((line) => kinds.includes(line.kind)).length;
    return { added: of("added", "changed"), removed: of("removed", "changed") };
  }, [other, now]);
  if (other === undefined) return null;
  const code = looksLikeCode(now) || looksLikeCode(other.text);
  return (
    <div className="debug-difference">
      <div className="debug-section-head">
        <h3>{texts.difference(node.nodeId)}</h3>
        <label className="debug-other">
          <span className="dim">{texts.gotIn}</span>
          <select className="input" value={other.address} onChange={(event) => setChosen(event.target.value)}>
            {before.slice(0, 50).map((one) => (
              <option key={one.address} value={one.address}>
                {roundName(one.address, texts.round)}
              </option>
            ))}
          </select>
        </label>
        <span className="debug-lines" role="img" aria-label={texts.linesLabel(changed.added, changed.removed)}>
          {texts.lines(changed.added, changed.removed)}
        </span>
      </div>
      <div className="debug-diff">
        {other.text === now ? <p className="dim">{texts.sameAsBefore}</p> : <WordDiff before={other.text} after={now} kind={code ? "lines" : "words"} />}
      </div>
    </div>
  );
}

function roundName(address: string, name: (round: number) => string): string {
  const rounds = parseAddress(address).rounds;
  const last = rounds.at(-1);
  // In nested loops the number alone would be ambiguous.
  return last === undefined ? address : rounds.length > 1 ? last.address : name(last.round);
}
