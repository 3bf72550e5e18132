/** Clock of the service. Its times are by that clock, and this machine's may be wrong. */

/** Maximum duration of a useful request. A longer one says too little about when the reply was written. */
const LONGEST_MS = 10_000;

/** Maximum difference of clocks that count as equal. The time must not jump with each reply. */
const TOLERANCE_MS = 5_000;

/** Resolution of the `Date` header. */
const RESOLUTION_MS = 1_000;

export class Clock {
  readonly #own: () => number;
  #ahead = 0;

  constructor(own: () => number = () => Date.now()) {
    this.#own = own;
  }

  /** Epoch milliseconds by the service's clock. */
  now = () => this.at(this.#own());

  /** Convert a time of this machine's clock to the service's clock. */
  at = (own: number) => own - this.#ahead;

  /** Send a request, and learn the offset from its reply's time. */
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

/** The page's only clock. */
export const clock = new Clock();
