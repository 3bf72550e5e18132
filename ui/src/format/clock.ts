/** The service's clock: what it tells of happened by that one, and this machine's may be wrong. */

/** An answer that took longer says too little of when it was written. */
const LONGEST_MS = 10_000;

/** Clocks that differ by less are taken for the same: the time must not jump with each answer. */
const TOLERANCE_MS = 5_000;

/** The header that tells it leaves out what is less than a second. */
const RESOLUTION_MS = 1_000;

export class Clock {
  readonly #own: () => number;
  #ahead = 0;

  constructor(own: () => number = () => Date.now()) {
    this.#own = own;
  }

  /** Epoch milliseconds by the service. */
  now = () => this.at(this.#own());

  /** What the service's clock said when this machine's said `own`. */
  at = (own: number) => own - this.#ahead;

  /** Sends a request, and learns from the time that its answer was written. */
  async watch(send: () => Promise<Response>): Promise<Response> {
    const sent = this.#own();
    const answer = await send();
    this.learn(answer.headers.get("date"), sent, this.#own());
    return answer;
  }

  learn(date: string | null, sent: number, came: number) {
    const written = Date.parse(date ?? "");
    if (Number.isNaN(written) || came < sent || came - sent > LONGEST_MS) return;
    const [least, most] = [sent - written - RESOLUTION_MS, came - written];
    const fits = (ahead: number) => least - TOLERANCE_MS <= ahead && ahead <= most + TOLERANCE_MS;
    if (fits(this.#ahead)) return;
    this.#ahead = fits(0) ? 0 : (least + most) / 2;
  }
}

/** The page's one. */
export const clock = new Clock();
