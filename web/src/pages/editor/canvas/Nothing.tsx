// The canvas of a workflow without nodes: how to begin.
import { Link } from "wouter";
import { Icon } from "../../../ui/Icon";
import { StaticDrawing } from "../../workflows/StaticDrawing";
import { templatePath, useTemplates } from "../../workflows/templates";
import "./nothing.css";

const MOST_TEMPLATES = 3;
/** What a picture may take, in pixels (nothing.css). */
const PICTURE = { width: 112, height: 106 };

interface NothingProps {
  // Not read here: the code of the canvas would become two files.
  texts: Record<"empty" | "emptyHelp" | "emptyReader" | "orTemplate", string>;
  mayEdit: boolean;
  /** Nothing is saved and nothing is written yet, so a template replaces nothing. */
  isNew: boolean;
}

export default function Nothing({ texts, mayEdit, isNew }: NothingProps) {
  return (
    <div className="canvas-nothing">
      <Icon name="flow" size={24} />
      <p>{mayEdit ? texts.empty : texts.emptyReader}</p>
      {mayEdit && <p>{texts.emptyHelp}</p>}
      {mayEdit && isNew && <Templates text={texts.orTemplate} />}
    </div>
  );
}

function Templates({ text }: { text: string }) {
  const usable = useTemplates().data?.templates.filter(({ ok }) => ok) ?? [];
  if (usable.length === 0) return null;
  return (
    <>
      <p>{text}</p>
      <ul className="canvas-templates">
        {usable.slice(0, MOST_TEMPLATES).map(({ name, title, drawing }) => (
          <li key={name}>
            <Link href={templatePath(name)}>
              {drawing && <StaticDrawing drawing={drawing} label={title} room={PICTURE} />}
              {name}
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}
