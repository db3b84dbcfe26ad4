// Does a piece of work again whenever it is wanted, but never more often than it can afford.

const LEAST_WAIT = 1000;
/** The work takes at most a tenth of the time, however long it takes. */
const WAIT_PER_WORK = 9;

export class Refresher {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isWorking = false;
  #isWanted = false;
  #isClosed = false;
  #nextAt = 0;

  constructor(
    readonly work: () => Promise<void>,
    readonly clock: () => number = () => performance.now(),
  ) {}

  want(): void {
    this.#isWanted = true;
    this.#plan();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #plan(): void {
    if (this.#isClosed || this.#isWorking || !this.#isWanted || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => void this.#run(), Math.max(0, this.#nextAt - this.clock()));
  }

  async #run(): Promise<void> {
    this.#timer = undefined;
    this.#isWorking = true;
    this.#isWanted = false;
    const began = this.clock();
    await this.work();
    const end = this.clock();
    this.#isWorking = false;
    this.#nextAt = end + Math.max(LEAST_WAIT, WAIT_PER_WORK * (end - began));
    this.#plan();
  }
}
