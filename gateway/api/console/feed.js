// The stream of changes, over fetch: EventSource gives up after a 502 and cannot tell a stall.
const WAITS = [1000, 2000, 5000, 10000];
const STALLED = 15000;
const HIDDEN = 30000;

/** One stream of the topics the page watches; resumes, backs off, notices stalls.
 *
 * `on` has: state(rows), beat(now), hello(hello), status({ name, stale, retryAt, why }). Names: connecting,
 * live, behind, offline, draining, sign_in. `stale`: nothing comes, what the page has is of an earlier time.
 */
export class Feed {
  #on;
  #topics = [];
  #after = "";
  #failures = 0;
  #heard = { tick: 0, clock: 0 };
  #lead = 0;
  #stop = null;
  #timer = 0;
  #hiding = 0;
  #draining = false;
  #ended = false;

  constructor(on) {
    this.#on = on;
    addEventListener("online", () => this.#again());
    document.addEventListener("visibilitychange", () => this.#watchHiding());
    document.addEventListener("resume", () => this.#checkBeat());
    setInterval(() => this.#checkBeat(), 1000);
    this.#watchHiding(); // it may have been opened in the background
  }

  /** Watches these topics from now on. Others than before: joins anew, with all rows. */
  watch(topics) {
    if (topics.join() === this.#topics.join() && !this.#ended) return;
    if (this.#ended) this.#on.status({ name: "connecting" });
    this.#topics = topics;
    this.#after = "";
    this.#ended = false;
    this.#connect();
  }

  /** Ends the stream until `watch` is called again. */
  end(name) {
    this.#ended = true;
    this.#topics = [];
    this.#close();
    this.#on.status({ name, stale: true });
  }

  #close() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#stop?.abort();
    this.#stop = null;
  }

  #again() {
    if (!this.#ended && this.#topics.length && this.#timer) this.#connect();
  }

  #watchHiding() {
    clearTimeout(this.#hiding);
    if (document.hidden) this.#hiding = setTimeout(() => this.#rest(), HIDDEN);
    else if (!this.#stop && !this.#ended && this.#topics.length) this.#connect();
    else this.#checkBeat();
  }

  // Nobody looks. Whoever looks again must not take for now what is shown then.
  #rest() {
    if (this.#ended) return;
    this.#close();
    this.#on.status({ name: "behind", stale: true });
  }

  // One of both clocks may stand still while the machine sleeps; the other may be set.
  #isStalled() {
    const { tick, clock } = this.#heard;
    return Math.max(performance.now() - tick, Date.now() - clock) >= STALLED;
  }

  #noteHeard() {
    this.#heard = { tick: performance.now(), clock: Date.now() };
  }

  #checkBeat() {
    if (!this.#stop || !this.#isStalled()) return;
    this.#on.status({ name: "behind", stale: true });
    this.#connect();
  }

  async #connect() {
    this.#close();
    const stop = (this.#stop = new AbortController());
    this.#noteHeard();
    try {
      await this.#read(stop);
      this.#retry(stop, this.#draining ? "draining" : "offline");
    } catch (error) {
      if (stop.signal.aborted) return;
      if (error.status === 401) this.end("sign_in");
      else this.#retry(stop, error.code === "draining" ? "draining" : "offline", error.status < 500 ? error.message : "");
    }
  }

  #retry(stop, name, why = "") {
    if (this.#stop !== stop) return;
    this.#close();
    this.#draining = false;
    const wait = WAITS[Math.min(this.#failures, WAITS.length - 1)];
    this.#failures += 1;
    this.#timer = setTimeout(() => this.#connect(), wait);
    this.#on.status({ name, why, stale: true, retryAt: Date.now() + wait });
  }

  async #read(stop) {
    const topics = this.#topics.map(encodeURIComponent).join();
    const query = new URLSearchParams({ topics, ...(this.#after && { after: this.#after }) });
    const answer = await fetch(`/api/console/feed?${query}`, { signal: stop.signal, cache: "no-store" });
    if (!answer.ok) throw await readError(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || stop.signal.aborted) return;
      const frames = (text + value).replaceAll("\r\n", "\n").split("\n\n");
      text = frames.pop();
      for (const frame of frames) this.#take(frame, stop);
    }
  }

  #take(frame, stop) {
    const { event, id, data } = parseFrame(frame);
    if (!event || this.#stop !== stop) return;
    // After a sleep, what was sent before it may still come: it is not how things are now.
    if (this.#isStalled()) return this.#checkBeat();
    if (id) this.#after = id;
    TAKES[event]?.(this, data);
  }

  takeHello(data) {
    this.#failures = 0;
    this.#lead = data.now - Date.now();
    this.#noteHeard();
    this.#on.hello(data);
  }

  takeState(data) {
    this.#on.state(data);
  }

  // The first beat follows the first state: what the page has is of now. A late beat says nothing about now.
  takeBeat(data) {
    const lead = data.now - Date.now();
    if (lead < this.#lead - STALLED) return;
    this.#lead = Math.max(this.#lead, lead);
    this.#noteHeard();
    this.#on.beat(data.now);
    this.#draining = data.draining === true;
    this.#on.status({ name: this.#draining ? "draining" : "live" });
  }

  takeBye(data) {
    this.#draining = data.reason === "draining";
    if (data.reason === "signed_out") this.end("sign_in");
  }
}

const TAKES = {
  hello: (feed, data) => feed.takeHello(data),
  state: (feed, data) => feed.takeState(data),
  beat: (feed, data) => feed.takeBeat(data),
  bye: (feed, data) => feed.takeBye(data),
};

async function readError(answer) {
  const error = await answer.json().then(
    (body) => body?.error ?? {},
    () => ({}), // a proxy's page
  );
  return Object.assign(new Error(error.message ?? ""), { status: answer.status, code: error.code });
}

/** One event of the stream: its name, id and data. */
export function parseFrame(frame) {
  const found = { event: "", id: "", data: {} };
  let data = "";
  for (const line of frame.split("\n")) {
    if (line.startsWith("event:")) found.event = line.slice(6).trim();
    else if (line.startsWith("id:")) found.id = line.slice(3).trim();
    else if (line.startsWith("data:")) data += line.slice(5);
  }
  if (data) found.data = JSON.parse(data);
  return found;
}
