// Reads something again after it has changed: soon after the first change, then at most once in a while, and never
// twice at the same time. No change is lost: one that comes during a read is read afterwards.

/** The least time between two reads, in milliseconds. */
const PAUSE = 1000;
/** Reading takes at most a tenth of the time, however long one read takes. */
const PAUSE_PER_READ = 9;

export class Refresher {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isReading = false;
  #isWanted = false;
  #isClosed = false;
  #nextAt = 0;

  /** `soon` is how long the first read waits for further changes, in milliseconds. */
  constructor(
    readonly read: () => Promise<unknown>,
    readonly soon = 0,
  ) {
    document.addEventListener("visibilitychange", this.#plan);
  }

  /** Something has changed. */
  want(): void {
    this.#isWanted = true;
    this.#plan();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#plan);
  }

  #plan = (): void => {
    if (this.#isClosed || this.#isReading || !this.#isWanted || this.#timer !== undefined) return;
    // Nobody sees a hidden page, and there may be many of those. It reads when it is seen again.
    if (document.hidden) return;
    this.#timer = setTimeout(() => void this.#work(), Math.max(this.soon, this.#nextAt - Date.now()));
  };

  async #work(): Promise<void> {
    this.#timer = undefined;
    this.#isReading = true;
    this.#isWanted = false;
    const began = Date.now();
    try {
      await this.read();
    } finally {
      const end = Date.now();
      this.#isReading = false;
      this.#nextAt = end + Math.max(PAUSE, PAUSE_PER_READ * (end - began));
      this.#plan();
    }
  }
}
