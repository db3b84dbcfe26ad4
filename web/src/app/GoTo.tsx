// Go to a run by its id, its workflow or its input; or, on the page of a run, to an address.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { readRuns } from "../api/queries";
import { useMessages } from "../i18n/messages";
import { Dialog } from "../ui/Dialog";
import { TextField } from "../ui/Field";
import { Status } from "../ui/Status";
import { messages } from "./messages";
import "./overlays.css";

export default function GoTo({ onClose }: { onClose: () => void }) {
  const texts = useMessages(messages);
  const [query, setQuery] = useState("");
  const [chosen, setChosen] = useState(0);
  const [location, navigate] = useLocation();
  const found = useQuery({
    queryKey: ["go-to", query],
    queryFn: () => readRuns({ q: query.trim(), limit: 8 }),
  });
  const runs = found.data?.runs ?? [];
  const run = /^\/runs\/([^/]+)/.exec(location)?.[1];
  const isAddress = run !== undefined && /[[\]/]/.test(query);
  const go = (index: number) => {
    const target = runs[index];
    if (isAddress) window.location.hash = encodeURI(query.trim());
    else if (target !== undefined) navigate(`/runs/${target.id}`);
    else return;
    onClose();
  };
  return (
    <Dialog title={texts.goTo} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          go(chosen);
        }}
        onKeyDown={(event) => {
          const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
          if (!step) return;
          event.preventDefault();
          setChosen(Math.max(0, Math.min(runs.length - 1, chosen + step)));
        }}
      >
        <TextField
          label={texts.goTo}
          isLabelHidden
          type="search"
          autoFocus
          value={query}
          onChange={(value) => {
            setQuery(value);
            setChosen(0);
          }}
        />
      </form>
      <ul className="found" aria-live="polite">
        {!isAddress &&
          runs.map((one, index) => (
            <li key={one.id}>
              <button
                type="button"
                aria-current={index === chosen || undefined}
                onClick={() => go(index)}
                onMouseEnter={() => setChosen(index)}
              >
                <Status status={one.status} />
                <strong>{one.workflow}</strong>
                <code className="dim">{one.id}</code>
                <span className="ellipsis dim">{one.input}</span>
              </button>
            </li>
          ))}
        {!isAddress && found.isSuccess && runs.length === 0 && <li className="dim">{texts.nothingFound}</li>}
      </ul>
    </Dialog>
  );
}
