// The hub as a SharedWorker: one for all tabs.
import { Hub, type ToHub } from "./hub";

const hub = new Hub();

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
  const port = event.ports[0];
  if (port === undefined) return;
  const page = hub.join((message) => port.postMessage(message));
  port.onmessage = (received: MessageEvent<ToHub>) => hub.take(page, received.data);
};
