// The live list of runs: what needs somebody first, then what is running, then what is over.
import { useCallback, useMemo, useRef } from "react";
import { useLocation, useSearch } from "wouter";
import { useMe } from "../../api/queries";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { useConnection } from "../../live/connection";
import { Button } from "../../ui/Button";
import { Later, later } from "../../ui/later";
import { Failure, Loading } from "../../ui/State";
import { useRunningClock } from "./clock";
import { ALL, filterPath, GROUPS, isFiltered, parseFilter, STATUSES, type Filter, type Group } from "./filter";
import { Filters } from "./Filters";
import { messages } from "./messages";
import { RunTable } from "./RunTable";
import { useLiveRefresh, useRunList, useSummary } from "./useRunList";
import "./runs.css";

const EmptyRuns = later(() => import("./EmptyRuns"));

export default function RunsPage({ onStart }: { onStart: () => void }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const search = useSearch();
  const [, navigate] = useLocation();
  const filter = useMemo(() => parseFilter(search), [search]);
  const change = useCallback(
    (next: Filter, replaces = false) => navigate(filterPath(next), { replace: replaces }),
    [navigate],
  );
  const { query, path, loadMore, isLoadingMore } = useRunList(filter);
  const summary = useSummary();
  useRunningClock();
  useLiveRefresh(() =>
    Promise.all([query.refetch({ cancelRefetch: false }), summary.refetch({ cancelRefetch: false })]),
  );

  const listed = query.data;
  const role = useMe().data?.role;
  const hasFilter = isFiltered(filter);
  const loaded = GROUPS.reduce((sum, group) => sum + (listed?.parts[group].rows.length ?? 0), 0);
  const isComplete = GROUPS.every((group) => !listed?.parts[group].next);
  const statuses = summary.data?.statuses;
  const counts = useMemo(() => {
    if (hasFilter || statuses === undefined) return null;
    const count = (group: Group) => STATUSES[group].reduce((sum, status) => sum + (statuses[status] ?? 0), 0);
    return { needs: count("needs"), running: count("running"), finished: count("finished") };
  }, [statuses, hasFilter]);
  const total = isComplete || counts === null ? loaded : counts.needs + counts.running + counts.finished;
  const shownTotal = texts.runs(`${formats.number(total)}${isComplete || counts !== null ? "" : "+"}`);
  const names = useMemo(
    () => [...new Set(GROUPS.flatMap((group) => listed?.parts[group].rows.map((run) => run.workflow) ?? []))],
    [listed],
  );
  // The path of the rows that are shown: while others are read, the ones before stay.
  const shownPath = useRef(path);
  if (!query.isPlaceholderData) shownPath.current = path;

  const isEmpty = listed !== undefined && loaded === 0 && !query.isPlaceholderData;
  return (
    <div className="runs">
      <header className="runs-header">
        <div className="runs-title">
          <h1>{texts.title}</h1>
          <Figures />
          {role !== "viewer" && (
            <Button kind="primary" icon="plus" hint="N" onClick={onStart}>
              {texts.start}
            </Button>
          )}
        </div>
        <Filters filter={filter} names={names} count={listed === undefined ? "" : shownTotal} onChange={change} />
      </header>
      {query.error !== null && (
        <Failure error={query.error} onRetry={() => void query.refetch()} command="roundel runs" />
      )}
      {listed === undefined && query.error === null && <Loading lines={8} />}
      {isEmpty && !hasFilter && (
        <Later fallback={<Loading />}>
          <EmptyRuns onStart={onStart} />
        </Later>
      )}
      {isEmpty && hasFilter && (
        <div className="runs-empty">
          <p>{texts.noMatch}</p>
          <Button onClick={() => change(ALL)}>{texts.clearFilters}</Button>
        </div>
      )}
      {listed !== undefined && !isEmpty && (
        <RunTable
          listed={listed}
          filter={filter}
          path={shownPath.current}
          counts={counts}
          loadMore={loadMore}
          isLoadingMore={isLoadingMore}
        />
      )}
    </div>
  );
}

/** 3 need you · 3 running · $3.41 today */
function Figures() {
  const texts = useMessages(messages);
  const formats = useFormats();
  const summary = useSummary();
  const connection = useConnection();
  const parts: string[] = [];
  if (summary.data) {
    const { needs_person, running, cost_usd } = summary.data;
    if (needs_person) parts.push(texts.needYou(needs_person));
    if (running) parts.push(texts.runningCount(running));
    if (cost_usd !== null) parts.push(texts.costToday(`$${cost_usd.toFixed(2)}`));
  }
  if (connection.state === "reconnecting") parts.push(texts.asOf(formats.clock(connection.heard)));
  return (
    <p className="runs-figures dim" role="status">
      {parts.join(" · ")}
    </p>
  );
}
