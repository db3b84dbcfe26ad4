// Files before they become workflows: what is in each, whether it is sound, and the name that it gets.
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { ApiError } from "../../../api/client";
import type { CheckResult } from "../../../api/schema";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { Dialog } from "../../../ui/Dialog";
import { TextField } from "../../../ui/Field";
import { Failure, Loading } from "../../../ui/State";
import { useSettled } from "../../../ui/useSettled";
import { isName } from "../../editor/save/names";
import { readSaved } from "../../editor/save/requests";
import { Diagnostics, Loops } from "../facts";
import { editorPath } from "../shared";
import { StaticDrawing } from "../StaticDrawing";
import "../../settings/plain.css";
import "../workflows.css";
import "./import.css";
import { messages } from "./messages";
import { useImport, type Imported } from "./useImport";

export interface Opening {
  text: string;
  name: string;
  file: string;
}

interface ImportProps {
  files: readonly File[];
  onClose: () => void;
  /** Shows a text in an editor, not saved yet. */
  onOpen: (opening: Opening) => void;
  /** Whether it replaces what an editor has. */
  isInEditor?: boolean;
}

export default function ImportDialog({ files: chosen, onClose, onOpen, isInEditor = false }: ImportProps) {
  const texts = useMessages(messages);
  const { files, checkAgain, rename, save, saveAll } = useImport(chosen);
  const open = files?.filter((one) => one.problem === null && one.saved === null) ?? [];
  return (
    <Dialog
      title={texts.title(chosen.length)}
      kind="drawer"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{texts.close}</Button>
          {open.length > 1 && (
            <Button kind="primary" isBusy={open.some((one) => one.isBusy)} onClick={() => void saveAll()}>
              {texts.saveAll}
            </Button>
          )}
        </>
      }
    >
      {files === null ? (
        <Loading lines={6} />
      ) : (
        <ul className="import-files">
          {files.map((file, index) => (
            <li key={index} aria-label={file.file}>
              <File
                file={file}
                isInEditor={isInEditor}
                isOnly={files.length === 1}
                onCheck={() => checkAgain(index)}
                onRename={(name) => rename(index, name)}
                onSave={() => void save(index)}
                onOpen={() => onOpen({ text: file.text, name: file.name, file: file.file })}
              />
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}

interface FileProps {
  file: Imported;
  isInEditor: boolean;
  isOnly: boolean;
  onCheck: () => void;
  onRename: (name: string) => void;
  onSave: () => void;
  onOpen: () => void;
}

function File({ file, isInEditor, isOnly, onCheck, onRename, onSave, onOpen }: FileProps) {
  const texts = useMessages(messages);
  const taken = useTaken(file);
  if (file.problem !== null) {
    return (
      <>
        <Head file={file} />
        <p className="import-refused">{texts[file.problem]}</p>
      </>
    );
  }
  if (file.checkError) return <Failure error={file.checkError} onRetry={onCheck} />;
  return (
    <>
      <Head file={file} />
      {file.saved ? (
        <p className="import-actions" role="status">
          {texts.saved(file.saved.name)}{" "}
          <Link className="button" href={editorPath(file.saved)} aria-label={texts.editNamed(file.saved.name)}>
            {texts.edit}
          </Link>
        </p>
      ) : (
        <form
          className="import-actions"
          onSubmit={(event) => {
            event.preventDefault();
            onSave();
          }}
        >
          <TextField
            label={texts.name}
            value={file.name}
            onChange={onRename}
            error={file.error || (taken ? texts.taken(file.name) : undefined)}
          />
          <Button
            kind={isOnly ? "primary" : "plain"}
            aria-label={(isInEditor ? texts.replaceNamed : texts.openNamed)(file.file)}
            onClick={onOpen}
          >
            {isInEditor ? texts.replace : texts.open}
          </Button>
          <Button isBusy={file.isBusy} disabled={taken} aria-label={texts.saveNamed(file.file)} onClick={onSave}>
            {texts.save}
          </Button>
        </form>
      )}
      {file.check ? <Content result={file.check} file={file.file} /> : <Loading />}
    </>
  );
}

function Head({ file }: { file: Imported }) {
  const texts = useMessages(messages);
  const found = file.check?.diagnostics;
  const errors = found?.filter((one) => one.severity === "error").length ?? 0;
  const warnings = (found?.length ?? 0) - errors;
  return (
    <h3 className="import-head">
      {file.file}
      {found && errors > 0 && <span className="plain-chip plain-chip-bad">{texts.errors(errors)}</span>}
      {found && warnings > 0 && <span className="plain-chip plain-chip-warn">{texts.warnings(warnings)}</span>}
      {file.check?.ok && <span className="plain-chip plain-chip-good">{texts.ready}</span>}
    </h3>
  );
}

function Content({ result, file }: { result: CheckResult; file: string }) {
  const texts = useMessages(messages);
  return (
    <div className="import-content">
      <div className="import-facts" tabIndex={0} role="group" aria-label={texts.factsOf(file)}>
        {result.diagnostics.length > 0 && <Diagnostics result={result} />}
        {!result.ok && <p className="dim">{texts.draftHelp}</p>}
        {result.ok && <Loops result={result} />}
      </div>
      {result.drawing && (
        <div className="import-drawing" tabIndex={0} role="group" aria-label={texts.drawingOf(file)}>
          <StaticDrawing drawing={result.drawing} label={texts.drawingOf(file)} />
        </div>
      )}
    </div>
  );
}

/** Whether there is a workflow with the name of a file already. */
function useTaken({ name, problem, saved }: Imported): boolean {
  const settled = useSettled(name);
  const found = useQuery({
    queryKey: ["workflows", "taken", settled],
    queryFn: async () => {
      try {
        await readSaved(settled, null);
        return true;
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return false;
        throw error;
      }
    },
    enabled: problem === null && saved === null && isName(settled),
  });
  return found.data === true && settled === name;
}
