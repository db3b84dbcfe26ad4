import { useState } from "react";
import { call } from "../api/client";
import { queryClient } from "../api/queries";
import { useMessages } from "../i18n/messages";
import { tell } from "../live/connection";
import { Button } from "../ui/Button";
import { TextField } from "../ui/Field";
import { messages } from "./messages";
import { Logo } from "./TopBar";

export default function SignIn() {
  const texts = useMessages(messages);
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setError("");
    try {
      await call("/session", { body: { token: token.trim() } });
      tell({ type: "retry" });
      await queryClient.invalidateQueries();
    } catch (problem) {
      setError((problem as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <h1>
          <Logo /> Roundel
        </h1>
        <p className="dim">{texts.signInHelp}</p>
        <TextField
          label={texts.token}
          type="password"
          isMono
          autoFocus
          value={token}
          onChange={setToken}
          error={error}
          help={texts.tokenHelp}
        />
        <Button kind="primary" type="submit" isBusy={isBusy} disabled={!token.trim()}>
          {texts.signIn}
        </Button>
      </form>
    </main>
  );
}
