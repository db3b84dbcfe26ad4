import { useMessages } from "../i18n/messages";
import { Dialog } from "../ui/Dialog";
import { CheckField } from "../ui/Field";
import { useKeyState } from "./keys";
import { messages } from "./messages";
import "./overlays.css";

export default function KeyList({ onClose }: { onClose: () => void }) {
  const texts = useMessages(messages);
  const { actions, areSingleKeysOn, turnSingleKeys } = useKeyState();
  return (
    <Dialog title={texts.keys} onClose={onClose}>
      <dl className="key-list">
        {actions.map((action) => (
          <div key={action.keys + action.text}>
            <dt>
              <kbd className="key">{action.keys}</kbd>
            </dt>
            <dd>{action.text}</dd>
          </div>
        ))}
      </dl>
      <CheckField label={texts.singleKeys} checked={areSingleKeysOn} onChange={turnSingleKeys} />
    </Dialog>
  );
}
