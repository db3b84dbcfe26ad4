// Chooses the run to compare with.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { readRuns, useRunView } from "../../api/queries";
import type { RunView } from "../../api/schema";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { TextField } from "../../ui/Field";
import { Failure, Loading } from "../../ui/State";
import { Status } from "../../ui/Status";
import { messages } from "./messages";

/** Whether two runs have the same origin, as far as they say so themselves. */
function isFamily(run: RunView, other: RunView | undefined): boolean {
  if (other === undefined) return false;
  return run.parent === other.id || other.parent === run.id || (run.parent !== "" && run.parent === other.parent);
}

export function Picker({ runId, isSame = false }: { runId: string; isSame?: boolean }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const [query, setQuery] = useState("");
  const own = useRunView(runId);
  const found = useQuery({
    queryKey: ["compare", "choose", query.trim()],
    queryFn: () => readRuns({ q: query.trim(), limit: 100 }),
    placeholderData: keepPreviousData,
  });
  const others = (found.data?.runs ?? []).filter((run) => run.id !== runId);
  const near = (run: RunView) => (isFamily(run, own.data) ? 0 : run.workflow === own.data?.workflow ? 1 : 2);
  const sorted = others.map((run) => [near(run), run] as const).sort((x, y) => x[0] - y[0]);
  const failure = own.error ?? found.error;
  return (
    <div className="compare-choose">
      <header>
        <nav className="compare-crumbs">
          <Link href="/">{texts.runs}</Link> / <Link href={`/runs/${runId}`}>{own.data?.workflow ?? runId}</Link> /{" "}
          <span>{texts.compare}</span>
        </nav>
        <h1>{texts.chooseOther}</h1>
        <p className="dim">{isSame ? texts.sameRun : texts.chooseHelp}</p>
        <div className="compare-search">
          <TextField label={texts.searchRuns} type="search" autoFocus value={query} onChange={setQuery} />
        </div>
      </header>
      {failure && found.data === undefined && <Failure error={failure} onRetry={() => void found.refetch()} />}
      {found.isPending && <Loading />}
      <ul className="compare-choices">
        {sorted.map(([nearness, run]) => (
          <li key={run.id}>
            <Link href={`/runs/${runId}/compare/${run.id}`}>
              <Status status={run.status} />
              <span className="compare-choice-name">
                <strong>{run.workflow}</strong> <code className="dim">{run.id.slice(0, 8)}</code>
                {nearness === 0 && <span className="compare-chip">{texts.familyRun}</span>}
              </span>
              <span className="ellipsis dim">{run.input}</span>
              <span className="dim compare-when">{formats.ago(run.updated)}</span>
            </Link>
          </li>
        ))}
      </ul>
      {found.isSuccess && sorted.length === 0 && <p className="compare-none dim">{texts.nothingFound}</p>}
    </div>
  );
}
