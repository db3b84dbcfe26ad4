// Follows the run that tries the text, for the canvas and the pane, while the pane is open.
import { useEffect } from "react";
import { queryClient, keys, useRunState } from "../../../api/queries";
import { useRun, useRunEvents } from "../../../live/useRunEvents";
import { readyOf } from "../../run/graph/debugging";
import { liveOf } from "./live";
import { NOT_READY, useTrying, useTryStore, type Attempt } from "./store";

export function FollowRun() {
  const attempt = useTrying((trying) => trying.attempt);
  return attempt !== null ? <Follow key={attempt.id} attempt={attempt} /> : null;
}

function Follow({ attempt: { id, composites } }: { attempt: Attempt }) {
  const trying = useTryStore();
  const { store } = useRunEvents(id, composites);
  useEffect(() => {
    trying.setState({ live: liveOf(store) });
    return () => trying.setState({ live: null, ready: NOT_READY });
  }, [store, trying]);

  // Events do not say what a run that is paused does next; the server does.
  const pausedAt = useRun(store, (model) => (model.status === "paused" ? model.seq : null));
  const state = useRunState(id, pausedAt !== null).data;
  const isOld = pausedAt !== null && state !== undefined && state.seq < pausedAt;
  useEffect(() => {
    if (isOld) void queryClient.invalidateQueries({ queryKey: keys.state(id) });
  }, [isOld, pausedAt, id]);
  useEffect(() => {
    trying.setState({ ready: pausedAt !== null && state !== undefined && !isOld ? readyOf(state, composites) : NOT_READY });
  }, [state, pausedAt, isOld, composites, trying]);
  return null;
}
