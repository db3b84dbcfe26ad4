// A loop with its bound. One that only its cap bounds can be repaired here.
import { useMemo, useState } from "react";
import type { Proof, Region } from "../../../api/schema";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { Icon } from "../../../ui/Icon";
import { useEditor, useEditorStore } from "../store";
import { applyFix, capEdit, fixOf, loopOfProof } from "./fix";
import { messages } from "./messages";

export function LoopRow({ proof }: { proof: Proof }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const store = useEditorStore();
  const drawing = useEditor((values) => values.drawing);
  const loop = useMemo(() => (drawing ? loopOfProof(drawing, proof) : undefined), [drawing, proof]);
  const goTo = (key: string) => {
    const { select, openAround } = store.getState();
    select([{ kind: "node", key }]);
    openAround([{ kind: "node", key }]);
  };
  const isReadOnly = useEditor((values) => values.isReadOnly);
  const isProved = proof.bounded_by.length > 0;
  const bounds = proof.bounded_by.map(({ guard, limit }) =>
    typeof limit === "number" ? texts.rounds(formats.number(limit), guard) : texts.time(limit, guard),
  );
  const each = proof.depth > 0 ? texts.eachTime : "";
  return (
    <li className={`proof-row ${isProved ? "proof-good" : "proof-warning"}`}>
      <Icon name={isProved ? "shield" : "warning"} />
      <p>
        <button type="button" className="proof-link" disabled={!loop} onClick={() => loop && goTo(loop.node)}>
          {proof.id}
        </button>
        {texts.colon}
        {isProved ? bounds.join(texts.or) + each : texts.onlyCap(formats.number(proof.cap)) + each}
        {proof.depth > 0 && proof.worst_case_total !== null && (
          <span className="dim">{texts.total(formats.number(proof.worst_case_total))}</span>
        )}
      </p>
      {isProved ? (
        <span className="dim">{texts.proved}</span>
      ) : (
        !isReadOnly &&
        loop && (
          <>
            <CapButton entry={loop.node} cap={proof.cap} />
            <FixButton region={loop.region} />
          </>
        )
      )}
    </li>
  );
}

/** Chooses the cap of a loop. */
function CapButton({ entry, cap }: { entry: string; cap: number }) {
  const texts = useMessages(messages);
  const store = useEditorStore();
  const [rounds, setRounds] = useState<string | null>(null);
  if (rounds === null) {
    return (
      <Button kind="quiet" onClick={() => setRounds(String(cap))}>
        {texts.setCap}
      </Button>
    );
  }
  const number = Number(rounds);
  const isRight = Number.isInteger(number) && number >= 1;
  return (
    <form
      className="proof-cap"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isRight) return;
        const { lastGood, edit } = store.getState();
        edit(capEdit(lastGood, entry, number), lastGood);
        setRounds(null);
      }}
    >
      <input
        className="input"
        type="number"
        min={1}
        step={1}
        autoFocus
        aria-label={texts.capRounds}
        aria-invalid={!isRight}
        value={rounds}
        onChange={(event) => setRounds(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") setRounds(null);
        }}
      />
      <Button type="submit" disabled={!isRight}>
        {texts.setCap}
      </Button>
    </form>
  );
}

/** Adds the counter that bounds a loop. */
function FixButton({ region }: { region: Region }) {
  const texts = useMessages(messages);
  const store = useEditorStore();
  const drawing = useEditor((values) => values.drawing);
  const document = useEditor((values) => values.lastGood);
  const fix = drawing ? fixOf(document, drawing, region) : null;
  if (fix === null) return null;
  return <Button onClick={() => store.getState().edit(applyFix(document, fix), document)}>{texts.addCounter}</Button>;
}
