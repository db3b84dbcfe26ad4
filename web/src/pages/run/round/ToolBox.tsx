// A call of a tool: its name, its arguments, what became of it, and the result that the model received.
import { useState } from "react";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { ToolCall } from "../../../live/run_model";
import { ExpandableText } from "../../../ui/Expandable";
import { Icon } from "../../../ui/Icon";
import { asText, inlineArguments, prettyJson } from "./json";
import { messages } from "./messages";

/** So much of the result is shown at first. */
const LINES = 4;

export function ToolBox({ tool, isSelected }: { tool: ToolCall; isSelected: boolean }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const [isOpen, setOpen] = useState(false);
  const shown = inlineArguments(tool.arguments);
  const result = tool.result === undefined ? "" : asText(tool.result);
  return (
    <div className={`round-tool ${isSelected ? "round-tool-selected" : ""}`} data-address={tool.address}>
      <button
        type="button"
        className="round-tool-head"
        aria-expanded={isOpen}
        title={tool.address}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="tool" size={14} />
        <span className="round-tool-name">{tool.name}</span>
        <span className="round-tool-arguments">{shown}</span>
        <span className={`round-tool-status round-tool-${tool.status}`}>{texts.toolStatus(tool.status)}</span>
        {tool.ended !== null && (
          <span className="round-tool-time">{formats.duration((tool.ended - tool.started) / 1000)}</span>
        )}
      </button>
      {isOpen && (
        <div className="round-tool-body">
          <h3 className="round-label">{texts.toolArguments}</h3>
          <div className="mono">
            <ExpandableText text={asText(tool.arguments)} />
          </div>
        </div>
      )}
      {result && (
        <div className="round-tool-body mono">
          {isOpen && <h3 className="round-label">{texts.toolResult}</h3>}
          <ExpandableText text={prettyJson(result) ?? result} lines={LINES} says="more" />
        </div>
      )}
    </div>
  );
}
