// The tokens of people and programs: for administrators.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import type { Me, NewToken, TokenBody, TokenList, TokenView } from "../../api/schema";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { SelectField, TextField } from "../../ui/Field";
import { Failure, Loading } from "../../ui/State";
import { toast } from "../../ui/toasts";
import { Confirm } from "./Confirm";
import { FormDialog } from "./FormDialog";
import { messages } from "./messages";
import { rolesUpTo, type Role } from "./roles";

const KEY = ["tokens"];
/** What the server says instead of an id. */
const COMMAND_LINE = "command line";
const DAYS = [1, 7, 30, 90, 365] as const;

export function Tokens({ me }: { me: Me }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const [isCreating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<TokenView | null>(null);
  const pages = useInfiniteQuery({
    queryKey: KEY,
    queryFn: ({ pageParam }) => call<TokenList>("/tokens", { query: { cursor: pageParam } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });
  const tokens = pages.data?.pages.flatMap((page) => page.tokens) ?? [];
  const names = new Map(tokens.map((token) => [token.id, token.name]));
  return (
    <>
      <p className="settings-part">
        <Button icon="key" onClick={() => setCreating(true)}>
          {texts.createToken}
        </Button>
      </p>
      {pages.error && <Failure error={pages.error} onRetry={() => void pages.refetch()} />}
      {pages.isPending && <Loading />}
      {pages.isSuccess && tokens.length === 0 && <p className="settings-part dim">{texts.noTokens}</p>}
      {tokens.length > 0 && (
        <table className="plain-table" aria-label={texts.tokens}>
          <thead>
            <tr>
              <th scope="col">{texts.name}</th>
              <th scope="col">{texts.role}</th>
              <th scope="col">{texts.groups}</th>
              <th scope="col">{texts.created}</th>
              <th scope="col">{texts.createdBy}</th>
              <th scope="col">{texts.expires}</th>
              <th scope="col">
                <span className="hidden-text">{texts.revoke}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {tokens.map((token) => (
              <tr key={token.id}>
                <td data-label={texts.name}>
                  <strong>{token.name}</strong> <code className="dim">{token.id}</code>
                </td>
                <td data-label={texts.role}>{token.role}</td>
                <td data-label={texts.groups}>
                  {token.groups === null ? (
                    <span className="dim">{texts.allGroups}</span>
                  ) : (
                    token.groups.map((group) => group || texts.noName).join(", ")
                  )}
                </td>
                <td data-label={texts.created} className="plain-when" title={formats.full(token.created)}>
                  {formats.short(token.created)}
                </td>
                <td data-label={texts.createdBy}>
                  {token.created_by === "" || token.created_by === COMMAND_LINE ? (
                    <span className="dim">{texts.commandLine}</span>
                  ) : (
                    (names.get(token.created_by) ?? <code>{token.created_by}</code>)
                  )}
                </td>
                <td data-label={texts.expires} className="plain-when">
                  {token.expires === null ? (
                    <span className="dim">{texts.never}</span>
                  ) : (
                    <span title={formats.full(token.expires)}>{formats.short(token.expires)}</span>
                  )}
                </td>
                <td className="plain-actions">
                  <Button kind="danger" aria-label={texts.revokeNamed(token.name)} onClick={() => setRevoking(token)}>
                    {texts.revoke}
                  </Button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {pages.hasNextPage && (
        <div className="plain-more">
          <Button isBusy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            {texts.showMore}
          </Button>
        </div>
      )}
      {isCreating && <CreateToken me={me} onClose={() => setCreating(false)} />}
      {revoking && (
        <Confirm
          title={texts.revokeTitle}
          action={texts.revoke}
          onClose={() => setRevoking(null)}
          onConfirm={async () => {
            await call(`/tokens/${revoking.id}`, { method: "DELETE" });
            toast(texts.revoked(revoking.name));
            await queryClient.invalidateQueries({ queryKey: KEY });
          }}
        >
          <p>{texts.revokeText(revoking.name)}</p>
        </Confirm>
      )}
    </>
  );
}

function CreateToken({ me, onClose }: { me: Me; onClose: () => void }) {
  const texts = useMessages(messages);
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("operator");
  const [groups, setGroups] = useState("");
  const [days, setDays] = useState("30");
  const [isTried, setTried] = useState(false);
  const [made, setMade] = useState<NewToken | null>(null);
  if (made !== null) return <Secret token={made} onClose={onClose} />;
  const submit = async () => {
    setTried(true);
    if (!name.trim()) return;
    const named = groups.split(",").map((group) => group.trim()).filter(Boolean);
    const body: TokenBody = {
      name: name.trim(),
      role,
      groups: named.length ? named : null,
      expires_in: days === "" ? null : Number(days) * 86_400,
    };
    const token = await call<NewToken>("/tokens", { body });
    void queryClient.invalidateQueries({ queryKey: KEY });
    setMade(token);
  };
  return (
    <FormDialog title={texts.createToken} action={texts.create} onSubmit={submit} onClose={onClose}>
      <TextField
        label={texts.tokenName}
        autoFocus
        value={name}
        onChange={setName}
        help={texts.tokenNameHelp}
        error={isTried && !name.trim() ? texts.nameNeeded : undefined}
      />
      <SelectField
        label={texts.role}
        value={role}
        onChange={(value) => setRole(value as Role)}
        choices={rolesUpTo(me.role).map((value) => ({ value, text: value }))}
      />
      <TextField label={texts.groups} value={groups} onChange={setGroups} help={texts.groupsHelp} />
      <SelectField
        label={texts.expiry}
        value={days}
        onChange={setDays}
        choices={[
          ...DAYS.map((value) => ({ value: String(value), text: texts.inDays(value) })),
          { value: "", text: me.expires ? texts.sameAsMine : texts.neverExpires },
        ]}
      />
    </FormDialog>
  );
}

/** The secret, which the server never shows again. */
function Secret({ token, onClose }: { token: NewToken; onClose: () => void }) {
  const texts = useMessages(messages);
  const field = useRef<HTMLInputElement>(null);
  const [note, setNote] = useState("");
  const copy = async () => {
    field.current?.select();
    try {
      // Only pages over HTTPS or on this machine have a clipboard.
      await navigator.clipboard.writeText(token.secret);
      setNote(texts.copied);
    } catch {
      setNote(texts.cannotCopy);
    }
  };
  return (
    <Dialog
      title={texts.secretTitle}
      onClose={onClose}
      footer={
        <Button kind="primary" onClick={onClose}>
          {texts.done}
        </Button>
      }
    >
      <div className="plain-stack">
        <p>{texts.secretHelp}</p>
        <label className="field">
          <span className="field-label">{texts.secret}</span>
          <span className="settings-secret">
            <input ref={field} className="input mono" readOnly autoFocus value={token.secret} onFocus={(event) => event.target.select()} />
            <Button icon="copy" onClick={() => void copy()}>
              {texts.copy}
            </Button>
          </span>
        </label>
        <p className="field-help" role="status">
          {note}
        </p>
      </div>
    </Dialog>
  );
}
