// What lists of jobs need of the editor, which is loaded when somebody opens it.
import { toastError } from "./toast.js";

/** Shows a job as an answer had it, before the feed tells; null: it is gone. */
export function noteJob(store, id, job) {
  const topics = { jobs: id, [`job:${id}`]: "job" };
  for (const [topic, key] of Object.entries(topics)) if (store.has(topic)) store.apply({ [topic]: job ? { put: { [key]: job } } : { drop: [key] } });
}

/** Opens the editor, as editor.js says. */
export const openEditor = (app, given) => import("./editor.js").then((editor) => editor.openEditor(app, given), toastError);
