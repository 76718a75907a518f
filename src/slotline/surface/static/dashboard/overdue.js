// Who waits longer than expected. Each state has a new estimate and none is below 0, so it takes several to see that.

const SOON = 1000; // ms; less than that is said to be any moment …
const MOMENT = 3000; // … which lasts no longer than this

export class Overdue {
  #since = new Map(); // request → when it was first said to have its slot any moment

  /** Marks those in `requests` as `overdue` whose slot was to come at once, and has not. `now`: ms. */
  mark(requests, now) {
    const soon = requests.filter(({ estimated_wait_ms: ms }) => ms !== null && ms < SOON);
    this.#since = new Map(soon.map(({ id }) => [id, this.#since.get(id) ?? now]));
    for (const request of soon) request.overdue = now - this.#since.get(request.id) >= MOMENT;
  }
}
