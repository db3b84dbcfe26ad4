// The focus when the element that has it goes away: a button that gives way to another, a form that was sent.
import { useEffect, type RefObject } from "react";

/** The frame takes the focus that is lost inside it, so that Tab goes on from there. It needs `tabIndex={-1}`. */
export function useKeptFocus(frame: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const box = frame.current;
    if (box === null) return;
    let last: Element | null = null;
    const enter = (event: FocusEvent) => {
      last = event.target as Element;
    };
    const leave = (event: FocusEvent) => {
      const left = event.target as Element;
      // Browsers differ in whether an element that is removed loses the focus before or after. A button that is
      // disabled while it sends a form loses it as well, and may go away with the form.
      queueMicrotask(() => {
        if (last === left && left.isConnected && !left.matches(":disabled")) last = null;
      });
    };
    const observer = new MutationObserver(() => {
      if (last === null || last.isConnected) return;
      last = null;
      if (document.activeElement === document.body) box.focus({ preventScroll: true });
    });
    observer.observe(box, { childList: true, subtree: true });
    box.addEventListener("focusin", enter);
    box.addEventListener("focusout", leave);
    return () => {
      observer.disconnect();
      box.removeEventListener("focusin", enter);
      box.removeEventListener("focusout", leave);
    };
  }, [frame]);
}
