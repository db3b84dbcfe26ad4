// The frame of all pages: the bar, the routes, the keys that work everywhere.
import { Component, useEffect, useRef, useState, type ReactNode } from "react";
import { Link, Route, Switch, useLocation, useSearch } from "wouter";
import { ApiError } from "../api/client";
import { useMe } from "../api/queries";
import { useMessages } from "../i18n/messages";
import { tell } from "../live/connection";
import { Button } from "../ui/Button";
import { Later, later } from "../ui/later";
import { Empty, Failure, Loading } from "../ui/State";
import { Toasts } from "../ui/toasts";
import { useKeys } from "./keys";
import { messages } from "./messages";
import { AuditPage, ComparePage, EDITOR, EditorPage, MemoryPage, RunPage, RunsPage, SettingsPage, WorkflowsPage } from "./pages";
import { SkipLinks } from "./skip";
import { TopBar } from "./TopBar";
import "./app.css";

const SignIn = later(() => import("./SignIn"));
const GoTo = later(() => import("./GoTo"));
const KeyList = later(() => import("./KeyList"));
const StartDrawer = later(() => import("../pages/start/StartDrawer"));

type Overlay = "go-to" | "keys" | "start" | null;

export function App() {
  const texts = useMessages(messages);
  const me = useMe();
  const [overlay, setOverlay] = useState<Overlay>(null);
  const [path, navigate] = useLocation();
  const search = useSearch();
  // `/?start=NAME` is the list with the drawer of this workflow.
  const wanted = path === "/" ? (new URLSearchParams(search).get("start") ?? "") : "";
  // Every page shows whether the server is there, also those that follow nothing.
  useEffect(() => tell({ type: "retry" }), []);
  const [location] = useLocation();
  const isFirst = useRef(true);
  useEffect(() => {
    const active = document.activeElement;
    if (isFirst.current) isFirst.current = false;
    // The link that led here is gone with its page, or hidden until the next one is loaded.
    else if (active === document.body || !active?.checkVisibility()) document.getElementById("content")?.focus();
  }, [location]);
  useKeys([
    { keys: "Ctrl K", text: texts.goTo, action: () => setOverlay("go-to") },
    { keys: "N", text: texts.start, action: () => setOverlay("start") },
    { keys: "?", text: texts.keysHelp, action: () => setOverlay("keys") },
  ]);
  if (me.error instanceof ApiError && me.error.status === 401) {
    return (
      <Later>
        <SignIn />
      </Later>
    );
  }
  if (me.error && me.data === undefined) return <Failure error={me.error} onRetry={() => void me.refetch()} command="roundel serve" />;
  const close = () => {
    setOverlay(null);
    if (wanted) navigate(pathWithout("start", search), { replace: true });
  };
  return (
    <>
      <SkipLinks />
      <TopBar onGoTo={() => setOverlay("go-to")} />
      <main id="content" className="content" tabIndex={-1}>
        <Boundary>
          <Later fallback={<Loading />}>
            <Switch>
              <Route path="/">
                <RunsPage onStart={() => setOverlay("start")} />
              </Route>
              <Route path="/runs/:id">{({ id }) => <RunPage key={id} runId={id} />}</Route>
              <Route path="/runs/:id/compare/:other">
                {({ id, other }) => <ComparePage key={`${id} ${other}`} runId={id} otherId={other} />}
              </Route>
              <Route path={EDITOR}>{() => <EditorPage />}</Route>
              <Route path="/workflows/:name?">{() => <WorkflowsPage />}</Route>
              <Route path="/memory">{() => <MemoryPage />}</Route>
              <Route path="/audit">{() => <AuditPage />}</Route>
              <Route path="/settings">{() => <SettingsPage />}</Route>
              <Route>
                <Empty>
                  <p>{texts.notFound}</p>
                  <Link href="/">{texts.home}</Link>
                </Empty>
              </Route>
            </Switch>
          </Later>
        </Boundary>
      </main>
      <Later>
        {overlay === "go-to" && <GoTo onClose={close} />}
        {overlay === "keys" && <KeyList onClose={close} />}
        {(overlay === "start" || wanted !== "") && <StartDrawer key={wanted} workflow={wanted} onClose={close} />}
      </Later>
      <Toasts />
    </>
  );
}

function pathWithout(name: string, search: string): string {
  const pairs = new URLSearchParams(search);
  pairs.delete(name);
  return pairs.size > 0 ? `/?${pairs}` : "/";
}

/** Keeps a defect of one page from taking the rest with it. */
class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return <Broken error={this.state.error} />;
  }
}

function Broken({ error }: { error: Error }) {
  const texts = useMessages(messages);
  return (
    <Empty>
      <p>{texts.broken}</p>
      <code>{error.message}</code>
      <Button icon="retry" onClick={() => location.reload()}>
        {texts.reload}
      </Button>
    </Empty>
  );
}
