// A workflow as canvas, text and form at the same time.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useRef, useState, useSyncExternalStore } from "react";
import { useLocation, useSearchParams } from "wouter";
import { useMe } from "../../api/queries";
import { useMessages } from "../../i18n/messages";
import { Later, later } from "../../ui/later";
import { Failure, Loading } from "../../ui/State";
import { may } from "../settings/roles";
import { nameIn } from "../workflows/shared";
import { useTemplates } from "../workflows/templates";
import { CanvasPane } from "./canvas/CanvasPane";
import { Palette } from "./canvas/Palette";
import { EditorBar, Tabs } from "./EditorBar";
import { FormPane } from "./forms/FormPane";
import { layoutOf, roomOf, type Room } from "./layout";
import { messages } from "./messages";
import { ProofPane } from "./proof/ProofPane";
import { Notices } from "./save/Notices";
import { readSaved } from "./save/requests";
import { SaveDialogs } from "./save/SaveDialogs";
import { useSaving } from "./save/useSaving";
import { Splitter } from "./Splitter";
import { createEditor, EditorContext, useEditorStore, type EditorStore, type Saved } from "./store";
import { useEditorUi, type View } from "./ui";
import { YamlPane } from "./yaml/YamlPane";
import "./editor.css";

// Loaded when somebody tries a workflow: most visits do not.
const TryPane = later(() => import("./try/TryPane").then((found) => ({ default: found.TryPane })));
const FollowRun = later(() => import("./try/FollowRun").then((found) => ({ default: found.FollowRun })));

export default function EditorPage() {
  const [path] = useLocation();
  const [query] = useSearchParams();
  // A workflow that was just named keeps its editor, with its history.
  const named = useRef<{ name: string; key: string } | null>(null);
  const name = /\/edit\/?$/.test(path) ? nameIn(location.pathname.replace(/\/edit\/?$/, "")) : null;
  const opened = [query.get("group") ?? "", name ?? "", name === null ? (query.get("template") ?? "") : ""].join("/");
  const key = named.current !== null && named.current.name === name ? named.current.key : opened;
  const onNamed = (saved: Saved) => {
    named.current = { name: saved.name, key };
  };
  return (
    <Opened
      key={key}
      name={named.current?.name === name ? null : name}
      group={query.get("group")}
      template={query.get("template")}
      onNamed={onNamed}
    />
  );
}

interface OpenedProps {
  /** Null for a workflow that was never saved. */
  name: string | null;
  group: string | null;
  template: string | null;
  onNamed: (saved: Saved) => void;
}

function Opened({ name, group, template, onNamed }: OpenedProps) {
  const me = useMe();
  const opened = useQuery({
    queryKey: ["editor", name, group],
    queryFn: () => readSaved(name ?? "", group),
    enabled: name !== null,
    staleTime: Infinity,
    gcTime: 0,
  });
  const templates = useTemplates(template !== null);
  const [editor, setEditor] = useState<EditorStore | null>(null);
  const error = opened.error ?? templates.error;
  const isReady = me.data !== undefined && (name === null || opened.isSuccess) && (template === null || templates.isSuccess);
  const open = useEffectEvent(() => {
    const chosen = templates.data?.templates.find((one) => one.name === template) ?? null;
    const text = opened.data?.text ?? chosen?.text ?? textInHistory();
    return createEditor(text, opened.data ?? null, !may(me.data?.role, "author"));
  });
  useEffect(() => {
    if (!isReady) return;
    const made = open();
    setEditor(made);
    return () => made.getState().close();
  }, [isReady]);
  if (editor !== null) {
    return (
      <EditorContext value={editor}>
        <Frame onNamed={onNamed} />
      </EditorContext>
    );
  }
  if (error) return <Failure error={error} onRetry={() => void (opened.error ? opened : templates).refetch()} />;
  return <Loading lines={8} />;
}

/** The text of a file that was opened on another page. */
function textInHistory(): string {
  const state: unknown = history.state;
  const text = typeof state === "object" && state !== null && "text" in state ? state.text : "";
  return typeof text === "string" ? text : "";
}

function Frame({ onNamed }: { onNamed: (saved: Saved) => void }) {
  const store = useEditorStore();
  const room = useRoom();
  const saving = useSaving(store, onNamed);
  const setTab = useEditorUi((ui) => ui.setTab);
  const isTrying = useEditorUi((ui) => ui.isTrying);
  const setTrying = useEditorUi((ui) => ui.setTrying);
  const showProblems = () => {
    setTrying(false);
    setTab("proof");
    requestAnimationFrame(() => document.querySelector<HTMLElement>(".proof-list button, .proof")?.focus());
  };
  return (
    <div className={`editor editor-${room}`}>
      <EditorBar saving={saving} onProblems={showProblems} />
      <Notices saving={saving} />
      {room === "phone" && <Tabs />}
      <Panes room={room} />
      <SaveDialogs saving={saving} />
      <Later>{isTrying && <FollowRun />}</Later>
    </div>
  );
}

// Panes that are closed at first load when they are opened.
const OutlinePane = later(() => import("./canvas/OutlinePane").then((module) => ({ default: module.OutlinePane })));
const PANES = { canvas: CanvasPane, outline: OutlinePane, yaml: YamlPane, form: FormPane } as const;

function Panes({ room }: { room: Room }) {
  const texts = useMessages(messages);
  const { views, sizes, tab, isTrying } = useEditorUi();
  const layout = layoutOf(room, views, sizes, tab, isTrying);
  const edge = (area: string, name: string) => {
    const found = layout.edges.find((one) => one.area === area);
    return found && <Splitter key={area} edge={found} name={name} />;
  };
  const shown = (["canvas", "outline", "yaml", "form"] as const).filter((view) => layout.panes.has(view));
  return (
    <div
      className="editor-panes"
      style={{ gridTemplateColumns: layout.columns, gridTemplateRows: layout.rows, gridTemplateAreas: layout.areas }}
    >
      {layout.panes.has("palette") && (
        <div className="editor-pane editor-palette" style={{ gridArea: "palette" }}>
          <Palette />
        </div>
      )}
      {shown.flatMap((view) => {
        const Pane = PANES[view];
        return [
          view === "form" && edge("form-edge", texts.form),
          <Section key={view} view={view} name={texts[view]}>
            <Later fallback={<Loading />}>
              <Pane />
            </Later>
          </Section>,
          view !== "form" && edge(`${view}-edge`, texts[view]),
        ];
      })}
      {edge("bottom-edge", isTrying ? texts.tryIt : texts.proof)}
      {layout.panes.has("bottom") && (
        <section className="editor-pane editor-bottom" style={{ gridArea: "bottom" }} aria-label={isTrying ? texts.tryIt : texts.proof}>
          <Later fallback={<Loading />}>{isTrying ? <TryPane /> : <ProofPane />}</Later>
        </section>
      )}
    </div>
  );
}

function Section({ view, name, children }: { view: View; name: string; children: React.ReactNode }) {
  return (
    <section className={`editor-pane editor-pane-${view}`} style={{ gridArea: view }} aria-label={name}>
      {children}
    </section>
  );
}

const subscribe = (listener: () => void) => {
  addEventListener("resize", listener);
  return () => removeEventListener("resize", listener);
};

function useRoom(): Room {
  return useSyncExternalStore(subscribe, () => roomOf(innerWidth));
}
