// Takes files that are dropped anywhere on the page; the browser would leave the page for them.
import { useEffect, useEffectEvent, useState } from "react";
import { useMessages } from "../../../i18n/messages";
import { Icon } from "../../../ui/Icon";
import { messages } from "../messages";
import "./drop.css";

export function FileDrop({ onFiles }: { onFiles: (files: readonly File[]) => void }) {
  const texts = useMessages(messages);
  const [isOver, setOver] = useState(false);
  const take = useEffectEvent(onFiles);
  useEffect(() => {
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const over = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      // Before a part of the page that takes drops itself, such as the text.
      event.stopPropagation();
      if (event.dataTransfer) event.dataTransfer.dropEffect = "copy";
      setOver(true);
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) setOver(false);
    };
    const drop = (event: DragEvent) => {
      setOver(false);
      if (!hasFiles(event)) return;
      event.preventDefault();
      event.stopPropagation();
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length > 0) take(files);
    };
    addEventListener("dragover", over, true);
    addEventListener("dragleave", leave, true);
    addEventListener("drop", drop, true);
    return () => {
      removeEventListener("dragover", over, true);
      removeEventListener("dragleave", leave, true);
      removeEventListener("drop", drop, true);
    };
  }, []);
  if (!isOver) return null;
  return (
    <div className="import-over">
      <p>
        <Icon name="download" /> {texts.dropHere}
      </p>
    </div>
  );
}
