// What the feed told, by topic. Whoever listens is told once a frame, however much came.
const NOTHING = new Map();

export class Store {
  #topics = new Map();
  #changed = new Set();
  #tell;

  constructor(tell) {
    this.#tell = tell;
  }

  /** The rows of a topic: key → row. Empty until the first state came. */
  rows(topic) {
    return this.#topics.get(topic) ?? NOTHING;
  }

  row(topic, key) {
    return this.rows(topic).get(key);
  }

  /** Whether a first state of this topic has come. */
  has(topic) {
    return this.#topics.has(topic);
  }

  /** Applies one `state` event. */
  apply(state) {
    for (const [topic, { put = {}, drop = [], reset = false }] of Object.entries(state)) {
      if (reset || !this.#topics.has(topic)) this.#topics.set(topic, new Map());
      const rows = this.#topics.get(topic);
      for (const [key, row] of Object.entries(put)) rows.set(key, row);
      for (const key of drop) rows.delete(key);
      this.#note(topic);
    }
  }

  /** Forgets the topics that nobody watches any more. */
  keep(topics) {
    for (const topic of this.#topics.keys()) if (!topics.includes(topic)) this.#topics.delete(topic);
  }

  #note(topic) {
    if (this.#changed.size === 0) requestAnimationFrame(() => this.#flush());
    this.#changed.add(topic);
  }

  #flush() {
    const changed = this.#changed;
    this.#changed = new Set();
    this.#tell(changed);
  }
}
