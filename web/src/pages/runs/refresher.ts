// Reads something again after it has changed: soon after the first change, then at most once in a while, and
// never twice at the same time. No change is lost: one that comes during a read is read afterwards.

export class Refresher {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isBusy = false;
  #isDirty = false;
  #last = -Infinity;
  #isClosed = false;

  constructor(
    readonly read: () => Promise<unknown>,
    readonly soon = 60,
    readonly pause = 1000,
  ) {}

  /** Something has changed. */
  changed(): void {
    this.#isDirty = true;
    if (this.#timer !== undefined || this.#isBusy || this.#isClosed) return;
    // Nobody sees the list of a hidden page, and there may be many of those.
    if (document.hidden) return;
    const wait = Math.max(this.soon, this.pause - (Date.now() - this.#last));
    this.#timer = setTimeout(() => void this.#work(), wait);
  }

  /** The page is seen again. */
  shown(): void {
    if (this.#isDirty) this.changed();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #work(): Promise<void> {
    this.#timer = undefined;
    this.#isDirty = false;
    this.#isBusy = true;
    try {
      await this.read();
    } finally {
      this.#last = Date.now();
      this.#isBusy = false;
      if (this.#isDirty) this.changed();
    }
  }
}
