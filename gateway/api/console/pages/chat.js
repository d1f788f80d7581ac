// Chat page: not written yet.
import { h } from "../h.js";
import { say } from "../words.js";

export function createPage(app) {
  return {
    topics: (query) => [],
    mount(main, query) {
      main.append(h("div", { class: "head" }, h("h1", {}, say("chat.title"))));
    },
    update(change) {},
    leave() {},
  };
}
