// The exchanges of Live that the feed does not tell of: those that ended and, of too many live ones, those searched for.
import { get } from "../api.js";
import { now } from "../times.js";

const HOUR = 3600000;
const NEWEST = 40;
const PAGE = 500;
// Of those that ended, the gateway keeps no more.
const MOST = 2000;
const ENDED = ["done", "failed", "gone"];

/** Whether a filter is about those that ended in the last hour. */
export const isAboutEnded = (filter) => filter === "ended" || ENDED.includes(filter);

// The row `over` has no such members.
export const isOfLastHour = (row) => row.ended !== null && row.begun_at + row.ended > now() - HOUR;

/** Whether more ended in the last hour than are kept. */
export const isCutShort = (filter, count) => isAboutEnded(filter) && count > MOST;

/** The exchanges that were read, by their ids. */
export class FoundExchanges {
  rows = new Map();
  #asked = null;
  #last = "";

  /** Reads what a filter and a word ask for; `tell` runs after each page. `isOver`: the feed lists no live ones.
   *
   * `told`: the rows of the feed. The same once more: only the first page is new, the others are kept.
   */
  async read({ filter, q, isOver }, told, tell) {
    this.close();
    const { signal } = (this.#asked = new AbortController());
    const findsLive = isOver && !isAboutEnded(filter) && (filter || q);
    const state = findsLive ? filter || "live,ended" : isAboutEnded(filter) ? filter : "ended";
    const isWhole = findsLive || isAboutEnded(filter) || q !== "";
    const wish = JSON.stringify([state, q]);
    const goesOn = isAboutEnded(filter) && this.#last === wish;
    const kept = goesOn ? [...this.rows.values(), ...told.values()].filter(isOfLastHour) : [];
    const rows = new Map(kept.map((row) => [row.id, row]));
    let after = null;
    do {
      const page = await get("/api/console/exchanges", { state, q, limit: isWhole ? PAGE : NEWEST, after }, signal);
      for (const row of page.exchanges) rows.set(row.id, row);
      after = page.next;
      this.rows = rows;
      tell();
    } while (isWhole && !goesOn && after && rows.size < MOST);
    this.#last = wish;
  }

  /** All must be read again: who knows what was missed. */
  forget() {
    this.#last = "";
  }

  close() {
    this.#asked?.abort();
  }
}
