// The bar above a run: what it is, where the reader is, what it has used, and what can be done with it.
import { Link } from "wouter";
import { useRunView } from "../../api/queries";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { parseAddress } from "../../live/address";
import { tokensOf, type RunModel } from "../../live/run_model";
import { useRun } from "../../live/useRunEvents";
import { workSeconds } from "../../live/work";
import { Button } from "../../ui/Button";
import { Status, type ShownStatus } from "../../ui/Status";
import { toast, toastError } from "../../ui/toasts";
import { useNow } from "../../ui/useNow";
import { newestRound, useRunContext } from "./context";
import { RunControls } from "./controls/RunControls";
import { messages } from "./messages";

export function RunBar() {
  const texts = useMessages(messages);
  const { runId, store } = useRunContext();
  const workflow = useRun(store, (model) => model.workflow);
  const status = useRun(store, shownStatus);
  const view = useRunView(runId);
  return (
    <div className="run-bar">
      <nav className="run-name" aria-label={texts.address}>
        <Link href="/" className="dim">
          {texts.runs}
        </Link>
        <span className="dim" aria-hidden="true">
          /
        </span>
        <h1>{workflow || view.data?.workflow}</h1>
        <code className="dim">{runId}</code>
        <Status status={status} isPill />
        {view.data?.parent && (
          <Link href={`/runs/${view.data.parent}/compare/${runId}`} className="run-parent">
            {texts.isFork} <code>{view.data.parent}</code>
          </Link>
        )}
      </nav>
      <AddressBox />
      <Figures />
      <RunControls />
    </div>
  );
}

/** A question about a tool call is an approval. */
export function shownStatus(model: RunModel): ShownStatus {
  const isApproval = model.status === "waiting" && model.questions.some((one) => one.tool !== null);
  return isApproval ? "approval" : model.status;
}

/** Where the reader is: each part is a link to the round around it. */
function AddressBox() {
  const texts = useMessages(messages);
  const { store, selected, select } = useRunContext();
  const newest = useRun(store, newestRound);
  const address = selected || newest;
  if (!address) return null;
  const place = parseAddress(address);
  const last = place.rounds.at(-1)?.address;
  const copy = () => {
    const link = `${location.origin}${location.pathname}#${address}`;
    navigator.clipboard.writeText(link).then(() => toast(texts.copied), toastError);
  };
  return (
    <div className="run-address">
      {place.rounds.map((step, index) => (
        <span key={step.address}>
          {index > 0 && <span className="dim">{step.stem.slice(place.rounds[index - 1]?.address.length).replace(step.loop, "")}</span>}
          <button
            type="button"
            className={step.address === last ? "mono current" : "mono"}
            aria-current={step.address === last ? "true" : undefined}
            onClick={() => select(step.address)}
          >
            {`${index === 0 ? step.stem : step.loop}[${step.round}]`}
          </button>
        </span>
      ))}
      {place.rest && (
        <span className="mono">
          {place.rounds.length > 0 && <span className="dim">/</span>}
          {place.rest}
        </span>
      )}
      <Button kind="quiet" icon="copy" aria-label={texts.copyAddress} title={texts.copyAddress} onClick={copy} />
    </div>
  );
}

function Figures() {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store } = useRunContext();
  const usage = useRun(store, (model) => model.usage);
  const isRunning = useRun(store, (model) => model.status === "running");
  const now = useNow(1000, isRunning);
  const seconds = useRun(store, (model) => {
    const end = isRunning ? Math.max(now, model.latest) : model.latest;
    return Math.round(workSeconds(model.idle, model.started, end) * 10) / 10;
  });
  return (
    <dl className="run-figures">
      <div>
        <dd>{formats.duration(seconds)}</dd>
        <dt>{texts.work}</dt>
      </div>
      <div>
        <dd>{formats.number(usage.model_calls)}</dd>
        <dt>{texts.calls}</dt>
      </div>
      <div>
        <dd>{formats.number(tokensOf(usage))}</dd>
        <dt>{texts.tokens}</dt>
      </div>
      {usage.cost_usd !== null && (
        <div>
          <dd>{formats.cost(usage.cost_usd)}</dd>
        </div>
      )}
    </dl>
  );
}
