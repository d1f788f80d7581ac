// Calls of the gateway's HTTP API: JSON in and out, one kind of error, 401 told to the app.
import { say } from "./words.js";

/** A refusal of the server, or that it could not be reached (status 0). */
export class ApiError extends Error {
  constructor(status, code, message, body = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.body = body;
  }
}

let whenSignedOut = () => {};

/** Says whom to tell when an answer is 401. */
export function onSignedOut(tell) {
  whenSignedOut = tell;
}

/** path with a query; members that are null, undefined or "" are left out. */
export function withQuery(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return kept.length ? `${path}?${new URLSearchParams(kept)}` : path;
}

/** One call. `given`: query, body (sent as JSON), signal, headers. Throws ApiError; an abort stays an AbortError. */
export async function call(method, path, given = {}) {
  const answer = await send(method, withQuery(path, given.query), given);
  if (answer.status === 204) return null;
  const body = await answer.json().catch(() => null);
  if (answer.ok && body !== null) return body;
  throw readError(answer, body);
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body = {}, given = {}) => call("POST", path, { body, ...given });
export const remove = (path, query) => call("DELETE", path, { query });

/** The raw answer, for streams. An answer that is not 2xx is thrown as ApiError. */
export async function stream(method, path, given = {}) {
  const answer = await send(method, withQuery(path, given.query), given);
  if (!answer.ok) throw readError(answer, await answer.json().catch(() => null));
  return answer;
}

async function send(method, path, { body, signal, headers = {} }) {
  const json = body === undefined ? {} : { "content-type": "application/json" };
  try {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    return await fetch(path, { method, signal, body: sent, headers: { ...json, ...headers }, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", say("frame.unreachable"));
  }
}

function readError(answer, body) {
  if (answer.status === 401) whenSignedOut();
  const error = typeof body?.error === "object" && body.error !== null ? body.error : (body ?? {});
  const message = typeof error.message === "string" ? error.message : say("frame.answered", { status: answer.status });
  return new ApiError(answer.status, String(error.code ?? answer.status), message, body);
}
