// A text to try something on: typed, or sent by a node in an earlier run.
import { useId, useState, type ReactNode } from "react";
import { useMessages } from "../../../../i18n/messages";
import { messages } from "../messages";
import { useSamples, type Sample } from "../tryout";

export function TryOut({
  nodes,
  placeholder,
  children,
}: {
  /** The nodes whose messages it gets. */
  nodes: readonly string[];
  placeholder: string;
  /** What becomes of a text. */
  children: (text: string, round: number) => ReactNode;
}) {
  const texts = useMessages(messages);
  const id = useId();
  const samples = useSamples(nodes, texts.sampleName);
  const [chosen, setChosen] = useState<Sample | null>(null);
  const [typed, setTyped] = useState("");
  const text = chosen?.text ?? typed;
  return (
    <div className="form-try">
      <div className="form-try-head">
        <label htmlFor={id}>{texts.tryItOn}</label>
        {samples.data && samples.data.length > 0 && (
          <select
            className="input"
            aria-label={texts.sample}
            value={chosen ? samples.data.indexOf(chosen) : -1}
            onChange={(event) => setChosen(samples.data[Number(event.target.value)] ?? null)}
          >
            <option value={-1}>{texts.ownText}</option>
            {samples.data.map((sample, index) => (
              <option key={index} value={index}>
                {sample.name}
              </option>
            ))}
          </select>
        )}
      </div>
      <textarea
        id={id}
        className="input mono"
        rows={Math.min(6, Math.max(2, Math.ceil(text.length / 40)))}
        value={text}
        placeholder={placeholder}
        spellCheck={false}
        onChange={(event) => {
          setChosen(null);
          setTyped(event.target.value);
        }}
      />
      <div className="form-try-result" role="status">
        {text !== "" && children(text, chosen?.round ?? 1)}
      </div>
    </div>
  );
}
