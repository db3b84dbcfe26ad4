// The examples that ship with the package, each with its picture.
import { Link } from "wouter";
import { withQuery } from "../../api/client";
import type { TemplateView } from "../../api/schema";
import { useMessages } from "../../i18n/messages";
import { Failure, Loading } from "../../ui/State";
import { messages } from "./messages";
import { StaticDrawing } from "./StaticDrawing";
import { templatePath, useTemplates } from "./templates";

/** The least that a card has for its picture, in pixels (workflows.css). */
const PICTURE = { width: 236, height: 196 };

export function Templates({ mayUse }: { mayUse: boolean }) {
  const texts = useMessages(messages);
  const templates = useTemplates();
  return (
    <section className="workflows-templates" aria-labelledby="templates">
      <h2 id="templates">{texts.templates}</h2>
      <p className="dim">{texts.templatesHelp}</p>
      {templates.error && <Failure error={templates.error} onRetry={() => void templates.refetch()} />}
      {templates.isPending && <Loading />}
      <ul>
        {templates.data?.templates.map((template) => (
          <Card key={template.name} template={template} mayUse={mayUse} />
        ))}
      </ul>
    </section>
  );
}

function Card({ template, mayUse }: { template: TemplateView; mayUse: boolean }) {
  const texts = useMessages(messages);
  const { name, title, drawing, ok } = template;
  return (
    <li className="workflows-card">
      <div className="workflows-picture">
        {drawing && <StaticDrawing drawing={drawing} label={texts.drawingOf(name)} room={PICTURE} />}
      </div>
      <h3>
        <Link href={withQuery("/workflows", { template: name })}>{name}</Link>
      </h3>
      {!ok && <span className="plain-chip">{texts.needsFiles}</span>}
      <p className="dim">{title}</p>
      {mayUse && (
        <Link className="button" href={templatePath(name)} aria-label={texts.useNamed(name)}>
          {texts.use}
        </Link>
      )}
    </li>
  );
}
