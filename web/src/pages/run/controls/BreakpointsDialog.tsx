// The breakpoints of a run: where it pauses.
import { useState } from "react";
import { call } from "../../../api/client";
import { keys, queryClient } from "../../../api/queries";
import type { BreakpointsBody, BreakpointState } from "../../../api/schema";
import { useMessages } from "../../../i18n/messages";
import { Button, Segmented } from "../../../ui/Button";
import { Dialog } from "../../../ui/Dialog";
import { TextField } from "../../../ui/Field";
import { Failure, Loading } from "../../../ui/State";
import { messages } from "./messages";
import { breakpointsKey, useBreakpoints } from "./useBreakpoints";

export function BreakpointsDialog({ runId, onClose }: { runId: string; onClose: () => void }) {
  const texts = useMessages(messages);
  const found = useBreakpoints(runId);
  const [kind, setKind] = useState<"at" | "cel">("at");
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const change = async (body: BreakpointsBody) => {
    setBusy(true);
    setError("");
    try {
      const states = await call<BreakpointState[]>(`/runs/${runId}/breakpoints`, { body });
      queryClient.setQueryData(breakpointsKey(runId), states);
      // The debugger shows them, too.
      void queryClient.invalidateQueries({ queryKey: keys.state(runId) });
      return true;
    } catch (problem) {
      setError((problem as Error).message);
      return false;
    } finally {
      setBusy(false);
    }
  };
  const add = async () => {
    const given = text.trim();
    if (given && (await change({ add: [kind === "at" ? { at: given } : { cel: given }] }))) setText("");
  };
  return (
    <Dialog title={texts.breakpoints} onClose={onClose} footer={<Button onClick={onClose}>{texts.close}</Button>}>
      <div className="controls-dialog">
        <p>{texts.breakpointsText}</p>
        {found.error ? (
          <Failure error={found.error} onRetry={() => void found.refetch()} />
        ) : found.data === undefined ? (
          <Loading lines={2} />
        ) : found.data.length === 0 ? (
          <p className="dim">{texts.noBreakpoints}</p>
        ) : (
          <ul className="controls-breakpoints">
            {found.data.map((one) => (
              <li key={one.text}>
                <code>{one.text}</code>
                <span className="dim">{one.hits ? texts.met(one.hits) : texts.notMet}</span>
                <Button
                  kind="quiet"
                  icon="close"
                  aria-label={texts.remove(one.text)}
                  disabled={isBusy}
                  onClick={() => void change({ remove: [one.text] })}
                />
                {one.problem && <p className="field-error">{one.problem}</p>}
              </li>
            ))}
          </ul>
        )}
        <form
          className="controls-add"
          onSubmit={(event) => {
            event.preventDefault();
            void add();
          }}
        >
          <Segmented
            label={texts.kind}
            choices={[
              { value: "at", text: texts.atPlace },
              { value: "cel", text: texts.byCondition },
            ]}
            value={kind}
            onChange={setKind}
          />
          <TextField
            label={kind === "at" ? texts.place : texts.condition}
            isMono
            value={text}
            placeholder={kind === "at" ? texts.placePlaceholder : texts.conditionPlaceholder}
            error={error || undefined}
            onChange={setText}
          />
          <Button type="submit" icon="plus" isBusy={isBusy} disabled={!text.trim()}>
            {texts.add}
          </Button>
        </form>
      </div>
    </Dialog>
  );
}
