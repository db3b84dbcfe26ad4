// CodeMirror writes its styles into a <style> element, which the page's policy (`style-src 'self'`) blocks. In roots
// without a head, such as shadow roots, it uses a style sheet object instead, which is allowed: so the document is shown
// to it without its head, once, before the first view. It keeps what it has made then for the document.
import { StyleModule } from "style-mod";

let isDone = false;

export function allowStyles(): void {
  if (isDone) return;
  isDone = true;
  const headless = new Proxy(document, {
    get: (target, key) => (key === "head" ? undefined : Reflect.get(target, key)),
    set: (target, key, value) => Reflect.set(target, key, value),
  });
  StyleModule.mount(headless, []);
}
