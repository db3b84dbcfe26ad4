// The versions of a workflow: each can be compared with the text in the editor, and brought back as an edit.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../../api/client";
import type { VersionList } from "../../../api/schema";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { Dialog } from "../../../ui/Dialog";
import { WordDiff } from "../../../ui/diff/WordDiff";
import { Failure, Loading } from "../../../ui/State";
import { useEditor, type Saved } from "../store";
import { messages } from "./messages";
import { readVersion } from "./requests";
import type { Saving } from "./useSaving";

export default function VersionsDrawer({ saving }: { saving: Saving }) {
  const texts = useMessages(messages);
  const saved = useEditor((values) => values.saved);
  return (
    <Dialog title={texts.versionsTitle} kind="drawer" onClose={saving.close}>
      {saved && <Versions saved={saved} saving={saving} />}
    </Dialog>
  );
}

function Versions({ saved, saving }: { saved: Saved; saving: Saving }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const [chosen, setChosen] = useState(saved.version);
  const pages = useInfiniteQuery({
    queryKey: ["workflows", "versions", saved.name, saved.group],
    queryFn: ({ pageParam }) =>
      call<VersionList>(`/workflows/${encodeURIComponent(saved.name)}/versions`, {
        query: { group: saved.group || null, cursor: pageParam },
      }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });
  if (pages.error) return <Failure error={pages.error} onRetry={() => void pages.refetch()} />;
  if (!pages.data) return <Loading lines={8} />;
  return (
    <div className="save-versions">
      <ol aria-label={texts.versionsTitle}>
        {pages.data.pages
          .flatMap((page) => page.versions)
          .map((one) => (
            <li key={one.version}>
              <button type="button" aria-pressed={one.version === chosen} onClick={() => setChosen(one.version)}>
                <span className="strong">{texts.version(one.version)}</span>
                {one.version === saved.version && <span className="editor-chip">{texts.current}</span>}
                {one.draft && <span className="editor-chip editor-chip-error">{texts.draft(one.errors)}</span>}
                <span className="dim small" title={formats.full(one.updated)}>
                  {one.author} · {formats.ago(one.updated)}
                </span>
              </button>
            </li>
          ))}
        {pages.hasNextPage && (
          <li>
            <Button isBusy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
              {texts.older}
            </Button>
          </li>
        )}
      </ol>
      <Version key={chosen} saved={saved} version={chosen} saving={saving} />
    </div>
  );
}

function Version({ saved, version, saving }: { saved: Saved; version: number; saving: Saving }) {
  const texts = useMessages(messages);
  const text = useEditor((values) => values.text);
  const isReadOnly = useEditor((values) => values.isReadOnly);
  const found = useQuery({
    queryKey: ["workflows", "version", saved.name, saved.group, version],
    queryFn: () => readVersion(saved, version),
    staleTime: Infinity,
  });
  if (found.error) return <Failure error={found.error} onRetry={() => void found.refetch()} />;
  if (!found.data) return <Loading lines={8} />;
  const old = found.data.text;
  return (
    <section className="save-version" aria-label={texts.version(version)}>
      <header>
        <h3>{old === text ? texts.sameAsEditor : texts.compare(version)}</h3>
        {!isReadOnly && (
          <Button disabled={old === text} icon="undo" onClick={() => saving.restore(old, texts.restored(version))}>
            {texts.restore(version)}
          </Button>
        )}
      </header>
      <div className="save-diff">
        {old === text ? <pre>{text}</pre> : <WordDiff kind="lines" before={old} after={text} />}
      </div>
    </section>
  );
}
