// The stream of changes, over fetch: EventSource gives up after a 502 and cannot tell a stall.
const WAITS = [1000, 2000, 5000, 10000];
const STALLED = 15000;
const HIDDEN = 30000;

/** One stream of the topics the page watches; resumes, backs off, notices stalls.
 *
 * `on` has: state(rows), beat(now), hello(hello), status({ name, retryAt }). Names: connecting, live,
 * behind, offline, draining, sign_in.
 */
export class Feed {
  #on;
  #topics = [];
  #after = "";
  #failures = 0;
  #heard = 0;
  #stop = null;
  #timer = 0;
  #hiding = 0;
  #draining = false;
  #ended = false;

  constructor(on) {
    this.#on = on;
    addEventListener("online", () => this.#again());
    document.addEventListener("visibilitychange", () => this.#watchHiding());
    setInterval(() => this.#checkBeat(), 1000);
  }

  /** Watches these topics from now on. Others than before: joins anew, with all rows. */
  watch(topics) {
    if (topics.join() === this.#topics.join() && !this.#ended) return;
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
    this.#on.status({ name });
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
    if (document.hidden) this.#hiding = setTimeout(() => this.#close(), HIDDEN);
    else if (!this.#stop && !this.#ended && this.#topics.length) this.#connect();
  }

  #checkBeat() {
    if (!this.#stop || this.#heard === 0 || performance.now() - this.#heard < STALLED) return;
    this.#on.status({ name: "behind" });
    this.#connect();
  }

  async #connect() {
    this.#close();
    const stop = (this.#stop = new AbortController());
    this.#heard = performance.now();
    try {
      await this.#read(stop);
      this.#retry(stop, this.#draining ? "draining" : "offline");
    } catch (error) {
      if (stop.signal.aborted) return;
      if (error.status === 401) this.end("sign_in");
      else this.#retry(stop, this.#draining ? "draining" : "offline");
    }
  }

  #retry(stop, name) {
    if (this.#stop !== stop) return;
    this.#close();
    const wait = WAITS[Math.min(this.#failures, WAITS.length - 1)];
    this.#failures += 1;
    this.#timer = setTimeout(() => this.#connect(), wait);
    this.#on.status({ name, retryAt: Date.now() + wait });
  }

  async #read(stop) {
    const query = new URLSearchParams({ topics: this.#topics.join(","), ...(this.#after && { after: this.#after }) });
    const answer = await fetch(`/api/console/feed?${query}`, { signal: stop.signal, cache: "no-store" });
    if (!answer.ok) throw Object.assign(new Error(answer.statusText), { status: answer.status });
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
    this.#heard = performance.now();
    if (id) this.#after = id;
    TAKES[event]?.(this, data);
  }

  takeHello(data) {
    this.#failures = 0;
    this.#draining = data.draining === true;
    this.#on.beat(data.now);
    this.#on.hello(data);
    this.#on.status({ name: this.#draining ? "draining" : "live" });
  }

  takeState(data) {
    this.#on.state(data);
  }

  takeBeat(data) {
    this.#on.beat(data.now);
    this.#on.status({ name: this.#draining ? "draining" : "live" });
  }

  takeBye(data) {
    if (data.reason === "signed_out") this.end("sign_in");
    this.#draining = data.reason === "draining";
  }
}

const TAKES = {
  hello: (feed, data) => feed.takeHello(data),
  state: (feed, data) => feed.takeState(data),
  beat: (feed, data) => feed.takeBeat(data),
  bye: (feed, data) => feed.takeBye(data),
};

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
