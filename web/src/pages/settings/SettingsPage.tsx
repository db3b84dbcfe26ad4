// What this browser shows, who may do what, and what the server allows.
import { useQuery } from "@tanstack/react-query";
import { useId, useState, type ReactNode } from "react";
import { useKeyState } from "../../app/keys";
import { useTheme, type Theme } from "../../app/theme";
import { call } from "../../api/client";
import { useMe, useServer } from "../../api/queries";
import type { BudgetList, Me, ModelList, ServerView, ToolList } from "../../api/schema";
import { useFormats, useTimeZone } from "../../i18n/format";
import { LANGUAGES, useLanguage, useMessages, type Language } from "../../i18n/messages";
import { Segmented } from "../../ui/Button";
import { CheckField, SelectField, TextField } from "../../ui/Field";
import { Failure, Loading } from "../../ui/State";
import { BudgetTable } from "./Budgets";
import { messages } from "./messages";
import { may } from "./roles";
import { Tokens } from "./Tokens";
import { matchingZones } from "./zones";
import "./plain.css";
import "./settings.css";

const SECTIONS = ["browser", "account", "budgets", "tokens", "models", "tools", "allowed", "server"] as const;

export default function SettingsPage() {
  const texts = useMessages(messages);
  const me = useMe();
  const server = useServer();
  return (
    <div className="settings">
      <header className="plain-head">
        <div className="plain-title">
          <h1>{texts.settings}</h1>
        </div>
      </header>
      <div className="settings-body">
        <nav className="settings-nav" aria-label={texts.sections}>
          {SECTIONS.map((name) => (
            <a key={name} href={`#${name}`}>
              {texts[name]}
            </a>
          ))}
        </nav>
        <div className="settings-sections">
          <Section name="browser" help={texts.browserHelp}>
            <Browser />
          </Section>
          <Section name="account">{me.data && <Account me={me.data} />}</Section>
          <Section name="budgets" help={texts.budgetsHelp}>
            <Budgets />
          </Section>
          <Section name="tokens" help={may(me.data?.role, "admin") ? texts.tokensHelp : undefined}>
            {me.data === undefined ? (
              <Loading lines={2} />
            ) : may(me.data.role, "admin") ? (
              <Tokens me={me.data} />
            ) : (
              <p className="settings-part dim">{texts.tokensForbidden}</p>
            )}
          </Section>
          <Section name="models">
            <Models />
          </Section>
          <Section name="tools">
            <Tools />
          </Section>
          <Section name="allowed" help={texts.allowedHelp}>
            <Answer query={server}>{(view) => <Allowed view={view} />}</Answer>
          </Section>
          <Section name="server">
            <Answer query={server}>{(view) => <Server view={view} />}</Answer>
          </Section>
        </div>
      </div>
    </div>
  );
}

function Section({ name, help, children }: { name: (typeof SECTIONS)[number]; help?: string; children: ReactNode }) {
  const texts = useMessages(messages);
  return (
    <section id={name} aria-labelledby={`${name}-title`}>
      <h2 id={`${name}-title`}>{texts[name]}</h2>
      {help && <p className="settings-help dim">{help}</p>}
      {children}
    </section>
  );
}

/** What a request answered, once it has. */
function Answer<T>({
  query,
  children,
}: {
  query: { data: T | undefined; error: Error | null; refetch: () => unknown };
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) return children(query.data);
  if (query.error) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <Loading lines={3} />;
}

function Browser() {
  const texts = useMessages(messages);
  const { theme, choose } = useTheme();
  const { language, choose: chooseLanguage } = useLanguage();
  const { areSingleKeysOn, turnSingleKeys } = useKeyState();
  return (
    <div className="settings-part plain-stack">
      <div className="settings-line">
        <span>{texts.theme}</span>
        <Segmented<Theme>
          label={texts.theme}
          value={theme}
          onChange={choose}
          choices={[
            { value: "system", text: texts.system },
            { value: "light", text: texts.light },
            { value: "dark", text: texts.dark },
          ]}
        />
      </div>
      <div className="settings-field">
        <SelectField
          label={texts.language}
          value={language}
          onChange={(value) => chooseLanguage(value as Language)}
          choices={Object.entries(LANGUAGES).map(([value, text]) => ({ value, text }))}
        />
      </div>
      <Zone />
      <CheckField
        label={texts.singleKeys}
        help={texts.singleKeysHelp}
        checked={areSingleKeysOn}
        onChange={turnSingleKeys}
      />
    </div>
  );
}

function Zone() {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { zone, choose } = useTimeZone();
  const [query, setQuery] = useState("");
  const id = useId();
  const system = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const found = matchingZones(query);
  // The one that is chosen stays in the list, so that it does not seem to be another one.
  const shown = zone !== "" && !found.includes(zone) ? [zone, ...found] : found;
  return (
    <div className="settings-field settings-zone">
      <TextField label={texts.zoneSearch} type="search" value={query} placeholder="Europe/Vienna" onChange={setQuery} />
      <div className="field">
        <label className="field-label" htmlFor={id}>
          {texts.zone}
        </label>
        <select id={id} className="input" size={6} value={zone} onChange={(event) => choose(event.target.value)}>
          <option value="">{texts.zoneSystem(system)}</option>
          {shown.map((name) => (
            <option key={name} value={name}>
              {name.replaceAll("_", " ")}
            </option>
          ))}
        </select>
      </div>
      <p className="field-help" role="status">
        {found.length === 0 ? texts.zoneNone : texts.zoneNow(formats.full(Date.now()))}
      </p>
    </div>
  );
}

function Account({ me }: { me: Me }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const mayDo = { viewer: texts.viewerMay, operator: texts.operatorMay, author: texts.authorMay, admin: texts.adminMay };
  return (
    <dl className="settings-list">
      <Fact name={texts.name}>{me.name}</Fact>
      <Fact name={texts.role}>
        {me.role}
        <p className="dim small">{mayDo[me.role]}</p>
      </Fact>
      <Fact name={texts.groups}>
        {me.groups === null ? texts.allGroups : me.groups.map((group) => group || texts.noName).join(", ")}
      </Fact>
      <Fact name={texts.expires}>{me.expires ? formats.full(me.expires) : texts.never}</Fact>
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Budgets() {
  const budgets = useQuery({ queryKey: ["budgets"], queryFn: () => call<BudgetList>("/budgets") });
  return <Answer query={budgets}>{(found) => <BudgetTable budgets={found.budgets} />}</Answer>;
}

function Models() {
  const texts = useMessages(messages);
  const models = useQuery({ queryKey: ["models"], queryFn: () => call<ModelList>("/models") });
  return (
    <Answer query={models}>
      {({ unrestricted, models: all }) => (
        <>
          <p className="settings-part">
            {unrestricted ? texts.modelsAny : all.length ? texts.modelsThese : texts.noModels}
          </p>
          {all.length > 0 && (
            <table className="plain-table">
              <thead>
                <tr>
                  <th scope="col">{texts.provider}</th>
                  <th scope="col">{texts.address}</th>
                  <th scope="col">{texts.key}</th>
                </tr>
              </thead>
              <tbody>
                {all.map((model) => (
                  <tr key={`${model.provider} ${model.base_url}`}>
                    <td data-label={texts.provider}>{model.provider}</td>
                    <td data-label={texts.address}>
                      {model.base_url ? <code>{model.base_url}</code> : <span className="dim">{texts.ownAddress}</span>}
                    </td>
                    <td data-label={texts.key}>
                      {model.has_key ? (
                        <span className="plain-chip plain-chip-good">{texts.keySet}</span>
                      ) : (
                        <span className="dim">{texts.keyNone}</span>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </>
      )}
    </Answer>
  );
}

function Tools() {
  const texts = useMessages(messages);
  const tools = useQuery({ queryKey: ["tools"], queryFn: () => call<ToolList>("/tools") });
  return (
    <Answer query={tools}>
      {({ unrestricted, functions, mcp }) => (
        <>
          {unrestricted && <p className="settings-part">{texts.toolsAny}</p>}
          {functions.length === 0 ? (
            !unrestricted && <p className="settings-part dim">{texts.noFunctions}</p>
          ) : (
            <table className="plain-table">
              <thead>
                <tr>
                  <th scope="col">{texts.functions}</th>
                  <th scope="col">{texts.kind}</th>
                </tr>
              </thead>
              <tbody>
                {functions.map((one) => (
                  <tr key={`${one.name} ${one.kind ?? ""}`}>
                    <td data-label={texts.functions}>
                      <code>{one.name}</code>
                    </td>
                    <td data-label={texts.kind}>{one.kind ?? <span className="dim">{texts.anyKind}</span>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          {mcp.length === 0 ? (
            !unrestricted && <p className="settings-part dim">{texts.noMcp}</p>
          ) : (
            <table className="plain-table">
              <thead>
                <tr>
                  <th scope="col">{texts.mcp}</th>
                  <th scope="col">{texts.program}</th>
                </tr>
              </thead>
              <tbody>
                {mcp.map((one) => (
                  <tr key={one.name}>
                    <td data-label={texts.mcp}>{one.name}</td>
                    <td data-label={texts.program}>
                      <code>{one.url || [one.command, ...one.args].join(" ")}</code>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </>
      )}
    </Answer>
  );
}

function Allowed({ view }: { view: ServerView }) {
  const texts = useMessages(messages);
  const { functions, mcp, environment, models, python_code, files } = view.allowed;
  const list = (names: readonly string[]) =>
    names.length === 0 ? (
      <span className="dim">{texts.none}</span>
    ) : (
      names.map((name) => (
        <code key={name} className="settings-name">
          {name}
        </code>
      ))
    );
  return (
    <dl className="settings-list">
      <Fact name={texts.models}>{list(models)}</Fact>
      <Fact name={texts.functions}>{list(functions)}</Fact>
      <Fact name={texts.mcp}>{list(mcp)}</Fact>
      <Fact name={texts.environment}>{list(environment)}</Fact>
      <Fact name={texts.files}>{files ? texts.someFolders : <span className="dim">{texts.none}</span>}</Fact>
      <Fact name={texts.pythonCode}>{python_code ? texts.mayRun : <span className="dim">{texts.mayNotRun}</span>}</Fact>
    </dl>
  );
}

function Server({ view }: { view: ServerView }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { active_runs: runs, streams, body_bytes: body } = view.limits;
  return (
    <dl className="settings-list">
      <Fact name={texts.version}>Roundel {view.version}</Fact>
      <Fact name={texts.engine}>{view.engine}</Fact>
      <Fact name={texts.store}>{view.store}</Fact>
      <Fact name={texts.started}>{formats.full(view.started)}</Fact>
      <Fact name={texts.serverTime}>{formats.full(view.time)}</Fact>
      <Fact name={texts.activeRuns}>
        {runs === undefined
          ? formats.number(view.active_runs)
          : texts.ofAtMost(formats.number(view.active_runs), formats.number(runs))}
      </Fact>
      {streams !== undefined && <Fact name={texts.streams}>{formats.number(streams)}</Fact>}
      {body !== undefined && <Fact name={texts.body}>{texts.bytes(formats.decimal(body / 2 ** 20, 1))}</Fact>}
    </dl>
  );
}
