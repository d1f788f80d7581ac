// The conversation of Chat: what was said, the answer under way, and its trail. It outlives the page.
import { get, post, remove, stream } from "../api.js";
import { now, toMs } from "../times.js";
import { DIALECTS, readStream } from "./dialects.js";

const ID = "x-holdgate-exchange";
const FIND_AFTER = 400;
// A header has bytes: a name in any letters stays as it is.
const toBytes = (text) => String.fromCharCode(...new TextEncoder().encode(text));
const makeName = (prefix) => `${prefix}-${Math.random().toString(36).slice(2, 8)}`;

/** One answer. `turns` has the text of each; state, hold and trail come from notes and from the feed. */
class Answer {
  who = "model";
  turns = [];
  turn = 1;
  exchange = "";
  requestId = makeName("chat");
  state = "opening";
  until = 0;
  heldFrom = 0;
  trail = null;
  error = null;
  isStopped = false;
  isOpen = true;
  stop = new AbortController();

  constructor(asked) {
    this.asked = asked;
  }

  get text() {
    return this.turns.map((turn) => turn.text).join("");
  }

  takeNote(note) {
    if (note.until) this.#hold(note.until, now());
    this.state = note.state;
    if (note.turn) this.turn = note.turn;
    else if (note.state === "tooling") this.hasTooled = true; // an agent's stream does not number its turns
  }

  takeText(text = "", thinking = "") {
    const last = this.turns.at(-1);
    const goesOn = this.asked.agent && (this.hasTooled || (last?.n === this.turn && last.text && text === "\n\n"));
    if (goesOn) this.turn = Math.max(this.turn + 1, this.hasTooled ? (this.trail?.turns.length ?? 0) : 0);
    this.hasTooled = false;
    if (this.turns.at(-1)?.n !== this.turn) this.turns.push({ n: this.turn, text: "", thinking: "" });
    const turn = this.turns.at(-1);
    turn.text += text ?? "";
    turn.thinking += thinking ?? "";
    if (this.state !== "closing") this.state = "relaying";
  }

  takeTrail(trail) {
    this.trail = trail;
    this.exchange = trail.id;
    const hold = trail.holds.findLast((one) => one.ended === null);
    if (hold && trail.ended === null) this.#hold(trail.begun_at + hold.until, trail.begun_at + hold.at);
    if (!this.isOpen || this.asked.agent || !this.asked.stream) this.state = trail.state;
  }

  // A hold whose end moves began when it began. What a note says and what the trail says differ by a moment.
  #hold(until, from) {
    if (!this.isHeld) this.heldFrom = from;
    if (!this.isHeld || Math.abs(until - this.until) > 500) this.until = until;
  }

  get isHeld() {
    return this.isOpen && this.state === "holding" && this.until > 0;
  }
}

export class Talk {
  items = [];
  draft = "";
  session = makeName("chat");
  options = { dialect: "openai-chat", stream: true, hold: true, clock: true, system: "" };
  tell = () => {};

  get running() {
    const last = this.items.at(-1);
    return last?.who === "model" && last.isOpen ? last : null;
  }

  answers() {
    return this.items.filter((item) => item.who === "model");
  }

  begin(session = makeName("chat")) {
    for (const answer of this.answers()) if (answer.isOpen) answer.stop.abort();
    this.items = [];
    this.session = session;
  }

  /** Sends a message to { model } or { agent } and reads the answer to its end. */
  async send(text, target) {
    const before = this.running;
    const asked = { ...this.options, ...target, session: this.session };
    const answer = new Answer(asked);
    this.items.push({ who: "user", text }, answer);
    this.tell(answer);
    // Another request of the session ends a hold; without a session, leaving does.
    if (before && !this.session) before.stop.abort();
    const find = setTimeout(() => this.#find(answer), FIND_AFTER);
    try {
      await this.#read(answer, this.#history());
    } catch (error) {
      if (error.name !== "AbortError") answer.error = { message: error.message, code: error.code };
      else answer.isStopped = true;
    }
    clearTimeout(find);
    // What was typed stays, unless something else was typed meanwhile.
    if (answer.error && !answer.text) this.draft ||= text;
    answer.isOpen = false;
    if (answer.state !== "failed") answer.state = answer.isStopped ? "gone" : answer.error ? "failed" : "done";
    this.tell(answer);
    await this.#readEnd(answer);
  }

  // Messages that got no answer are left out: a model would see two in a row.
  #history() {
    const pairs = this.items
      .slice(0, -2)
      .filter((item, i, all) => (item.who === "user" ? all[i + 1]?.text : item.text));
    return [...pairs, this.items.at(-2)].map((item) => ({ who: item.who, text: item.text.trim() }));
  }

  async #read(answer, history) {
    const { asked } = answer;
    const dialect = DIALECTS[asked.agent ? "agent" : asked.dialect];
    const off = (name, on) => (on ? {} : { [name]: "off" });
    const headers = {
      "x-request-id": answer.requestId,
      "x-holdgate-notes": "1",
      ...(asked.agent || !asked.session ? {} : { "x-session-id": toBytes(asked.session) }),
      ...off("x-holdgate-hold", asked.hold),
      ...off("x-holdgate-clock", asked.clock),
    };
    const reply = await stream("POST", dialect.path, {
      body: dialect.body({ ...asked, history }),
      headers,
      signal: answer.stop.signal,
    });
    this.#setExchange(answer, reply.headers.get(ID) ?? "");
    if (!reply.headers.get("content-type")?.startsWith("text/event-stream")) {
      const text = dialect.whole(await reply.json());
      answer.turn = answer.trail?.turns.length ?? 1; // the texts of all turns come in one piece, after the last
      answer.takeText(text);
      return;
    }
    await readStream(reply.body, dialect, (found) => {
      if (found.error)
        answer.error = { message: found.error.message ?? "", code: found.error.code ?? found.error.type ?? "" };
      else if (found.note) answer.takeNote(found.note);
      else answer.takeText(found.text, found.thinking);
      this.tell(answer);
    });
  }

  #setExchange(answer, id) {
    if (!id || answer.exchange === id) return;
    answer.exchange = id;
    this.tell(answer);
  }

  // Before the first byte there are no headers: the trail is found by the id that we sent.
  async #find(answer) {
    if (answer.exchange || !answer.isOpen) return;
    const found = await get("/api/console/exchanges", { q: answer.requestId, limit: 1 }).catch(() => null);
    if (found?.exchanges.length) this.#setExchange(answer, found.exchanges[0].id);
    else setTimeout(() => this.#find(answer), FIND_AFTER);
  }

  // The end is read once more: the feed may have moved on to another answer.
  async #readEnd(answer) {
    for (let tries = 0; tries < 10 && (answer.trail?.ended ?? null) === null; tries += 1) {
      await new Promise((done) => setTimeout(done, 100 * (tries + 1)));
      await this.readTrail(answer);
    }
  }

  async readTrail(answer) {
    if (!answer.exchange) {
      const found = await get("/api/console/exchanges", { q: answer.requestId, limit: 1 }).catch(() => null);
      answer.exchange = found?.exchanges[0]?.id ?? "";
    }
    if (!answer.exchange) return;
    const trail = await get(`/api/console/exchanges/${encodeURIComponent(answer.exchange)}`).catch(() => null);
    if (trail) answer.takeTrail(trail);
    this.tell(answer);
  }

  endHold(answer) {
    return post(`/api/console/exchanges/${encodeURIComponent(answer.exchange)}/end_hold`);
  }

  /** Cancels the reminder that the answer is held for: the one that is due nearest to the hold's end. */
  async cancelReminder(answer) {
    const path = `/api/sessions/${encodeURIComponent(answer.asked.session)}/reminders`;
    const waiting = (await get(path)).items.filter((one) => !one.deliveredAt);
    const far = (one) => Math.abs(toMs(one.dueAt) - answer.until);
    const [nearest] = waiting.sort((a, b) => far(a) - far(b));
    if (nearest) await remove(`${path}/${encodeURIComponent(nearest.taskId)}`);
    return nearest ?? null;
  }

  /** Shows the conversation that the gateway keeps for an agent. */
  async load(agent) {
    const { session } = this;
    const kept = await get(`/api/sessions/${encodeURIComponent(session)}`, { agentId: agent }).catch(() => null);
    if (!kept || this.items.length || session !== this.session) return;
    this.items = kept.messages
      .filter((one) => typeof one.content === "string" && one.content && one.role !== "tool" && one.role !== "system")
      .map(({ role, content }) => ({ who: role === "user" ? "user" : "said", text: content }));
    this.tell(null);
  }
}
