// The bar above the panes: which workflow this is, what is wrong with it, and what can be done with it.
import { Link } from "wouter";
import { useKeys } from "../../app/keys";
import { useLanguage, useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Menu } from "../../ui/Menu";
import { toast } from "../../ui/toasts";
import { messages } from "./messages";
import type { Saving } from "./save/useSaving";
import { canRedo, canUndo, isUnsaved, useEditor, useEditorStore } from "./store";
import { useEditorUi, VIEWS, type View } from "./ui";
import { useUndoKeys } from "./useUndoKeys";

/** In the order in which the panes are shown most often. */
const TOGGLES: readonly View[] = ["canvas", "yaml", "form", "outline"];

export function EditorBar({ saving, onProblems }: { saving: Saving; onProblems: () => void }) {
  const texts = useMessages(messages);
  const name = useEditor(({ saved }) => saved?.name ?? "");
  const isReadOnly = useEditor((values) => values.isReadOnly);
  useKeys(isReadOnly ? [] : [{ keys: "Ctrl S", text: texts.saveKey, action: saving.save }]);
  return (
    <div className="editor-bar">
      <nav className="editor-name" aria-label={texts.place}>
        <Link href="/workflows" className="editor-up">
          {texts.workflows}
        </Link>
        <span className="dim" aria-hidden="true">
          /
        </span>
        <h1 title={name || undefined}>{name || texts.untitled}</h1>
      </nav>
      <VersionChip />
      <Problems onOpen={onProblems} />
      <span className="editor-spread" />
      {!isReadOnly && <History />}
      <Toggles />
      <span className="editor-rule" aria-hidden="true" />
      {name && (
        <Button aria-haspopup="dialog" onClick={saving.showVersions}>
          {texts.versions}
        </Button>
      )}
      <TryButton />
      {!isReadOnly && (
        <Button kind="primary" hint="Ctrl S" isBusy={saving.isBusy} onClick={saving.save}>
          {texts.save}
        </Button>
      )}
      <More saving={saving} />
    </div>
  );
}

function VersionChip() {
  const texts = useMessages(messages);
  const version = useEditor(({ saved }) => saved?.version ?? 0);
  const isDirty = useEditor(isUnsaved);
  const isReadOnly = useEditor((values) => values.isReadOnly);
  const text = version
    ? isDirty
      ? texts.notSaved(version)
      : texts.version(version)
    : isDirty
      ? texts.neverSaved
      : texts.isNew;
  return (
    <>
      <span className="editor-chip" role="status">
        {text}
      </span>
      {isReadOnly && <span className="editor-chip">{texts.readOnly}</span>}
    </>
  );
}

/** How many errors and warnings there are; it opens the list of them. */
function Problems({ onOpen }: { onOpen: () => void }) {
  const texts = useMessages(messages);
  const check = useEditor((values) => values.check);
  const failed = useEditor((values) => values.checkError);
  const broken = useEditor((values) => values.document.errors.length);
  if (failed) return <span className="editor-chip editor-chip-error">{texts.checkFailed}</span>;
  if (!check) return null;
  const found = check.diagnostics.filter((one) => one.severity === "error").length;
  // What the parser of the page has found is among the errors that the server finds a moment later.
  const errors = found || (broken > 0 ? 1 : 0);
  const warnings = check.diagnostics.length - found;
  const kind = errors ? "error" : warnings ? "warning" : "good";
  const parts = [errors && texts.errors(errors), warnings && texts.warnings(warnings)].filter(Boolean);
  return (
    <button type="button" className={`editor-chip editor-chip-${kind}`} onClick={onOpen}>
      <Icon name={kind === "good" ? "check" : "warning"} size={14} />
      {parts.join(", ") || texts.sound}
    </button>
  );
}

function History() {
  const texts = useMessages(messages);
  const store = useEditorStore();
  const mayUndo = useEditor(({ state }) => canUndo(state));
  const mayRedo = useEditor(({ state }) => canRedo(state));
  const { undo, redo } = store.getState();
  useUndoKeys(undo, redo);
  return (
    <>
      <Button
        kind="quiet"
        icon="undo"
        aria-label={texts.undo}
        title={`${texts.undo} (Ctrl Z)`}
        aria-keyshortcuts="Control+Z"
        disabled={!mayUndo}
        onClick={undo}
      />
      <Button
        kind="quiet"
        icon="redo"
        aria-label={texts.redo}
        title={`${texts.redo} (Ctrl Shift Z)`}
        aria-keyshortcuts="Control+Shift+Z Control+Y"
        disabled={!mayRedo}
        onClick={redo}
      />
      <span className="editor-rule" aria-hidden="true" />
    </>
  );
}

/** Any of the views, at least one. */
function Toggles() {
  const texts = useMessages(messages);
  const views = useEditorUi((ui) => ui.views);
  const toggle = useEditorUi((ui) => ui.toggle);
  return (
    <div className="segmented editor-toggles" role="group" aria-label={texts.views}>
      {TOGGLES.map((view) => {
        const isShown = views.includes(view);
        return (
          <button
            key={view}
            type="button"
            aria-pressed={isShown}
            aria-disabled={isShown && views.length === 1}
            onClick={() => toggle(view)}
          >
            {texts[view]}
          </button>
        );
      })}
    </div>
  );
}

function TryButton() {
  const texts = useMessages(messages);
  const isTrying = useEditorUi((ui) => ui.isTrying);
  const setTrying = useEditorUi((ui) => ui.setTrying);
  const setTab = useEditorUi((ui) => ui.setTab);
  const isReadOnly = useEditor((values) => values.isReadOnly);
  if (isReadOnly) {
    // It stays reachable, since it says why it does nothing.
    return (
      <Button icon="play" aria-disabled title={texts.tryNotAllowed} onClick={() => toast(texts.tryNotAllowed, "failed")}>
        {texts.tryIt}
      </Button>
    );
  }
  return (
    <Button
      icon="play"
      aria-pressed={isTrying}
      onClick={() => {
        setTrying(!isTrying);
        setTab(isTrying ? "canvas" : "proof");
      }}
    >
      {texts.tryIt}
    </Button>
  );
}

function More({ saving }: { saving: Saving }) {
  const texts = useMessages(messages);
  const language = useLanguage((state) => state.language);
  const store = useEditorStore();
  const isReadOnly = useEditor((values) => values.isReadOnly);
  const items = saving.actions
    .filter((action) => !(action.isForAuthors && isReadOnly))
    .map((action) => ({ text: action.text[language], icon: action.icon, action: () => action.run(store) }));
  return items.length > 0 ? <Menu label={texts.more} items={items} /> : null;
}

/** On phones: one pane at a time. */
export function Tabs() {
  const texts = useMessages(messages);
  const tab = useEditorUi((ui) => ui.tab);
  const isTrying = useEditorUi((ui) => ui.isTrying);
  const setTab = useEditorUi((ui) => ui.setTab);
  return (
    <div className="segmented editor-tabs" role="group" aria-label={texts.views}>
      {[...VIEWS, "proof" as const].map((one) => (
        <button key={one} type="button" aria-pressed={one === tab} onClick={() => setTab(one)}>
          {one === "proof" && isTrying ? texts.tryIt : texts[one]}
        </button>
      ))}
    </div>
  );
}
