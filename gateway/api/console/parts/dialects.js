// How Chat asks: the request of each dialect, and what its frames say.

// Each yields { text }, { thinking }, { error: { message, code } } or nothing.
const readChat = (data) => {
  const delta = data.choices?.[0]?.delta;
  return { text: delta?.content, thinking: delta?.reasoning_content ?? delta?.reasoning, error: data.error };
};
const readMessages = (data) => ({
  text: data.delta?.text,
  thinking: data.delta?.thinking,
  error: data.type === "error" ? data.error : null,
});
const readResponses = (data) => {
  if (data.type === "response.output_text.delta") return { text: data.delta };
  if (data.type === "response.reasoning_summary_text.delta") return { thinking: data.delta };
  if (data.type === "error") return { error: data };
  return { error: data.type === "response.failed" ? (data.response?.error ?? {}) : null };
};
const readAgent = (data, event) => {
  if (event === "hold") return { note: { state: "holding", until: data.until } };
  if (event === "tool_start") return { note: { state: "tooling" } };
  if (event === "error") return { error: data };
  return { text: event === "text" ? data.delta : "", thinking: event === "thinking" ? data.delta : "" };
};

const said = (history) =>
  history.map(({ who, text }) => ({ role: who === "user" ? "user" : "assistant", content: text }));
const joinTexts = (parts, type) =>
  (parts ?? [])
    .filter((part) => part.type === type)
    .map((part) => part.text)
    .join("");

/** By name: path, the request's body, how a frame is read, and the text of an answer that did not stream. */
export const DIALECTS = {
  "openai-chat": {
    title: "Chat Completions",
    path: "/v1/chat/completions",
    read: readChat,
    body: ({ model, stream, system, history }) => ({
      model,
      stream,
      messages: [...(system ? [{ role: "system", content: system }] : []), ...said(history)],
    }),
    whole: (body) => body.choices?.[0]?.message?.content ?? "",
  },
  "openai-responses": {
    title: "Responses",
    path: "/v1/responses",
    read: readResponses,
    body: ({ model, stream, system, history }) => ({
      model,
      stream,
      ...(system && { instructions: system }),
      input: said(history),
    }),
    whole: (body) => (body.output ?? []).map((item) => joinTexts(item.content, "output_text")).join(""),
  },
  "anthropic-messages": {
    title: "Messages",
    path: "/v1/messages",
    read: readMessages,
    body: ({ model, stream, system, history }) => ({
      model,
      stream,
      max_tokens: 4096,
      ...(system && { system }),
      messages: said(history),
    }),
    whole: (body) => joinTexts(body.content, "text"),
  },
  agent: {
    title: "",
    path: "/api/chat",
    read: readAgent,
    body: ({ agent, session, history }) => ({ agentId: agent, sessionId: session, message: history.at(-1).text }),
    whole: () => "",
  },
};

/** Reads an event stream; `take` gets { text, thinking, note, error } of each frame. */
export async function readStream(body, dialect, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (text + value).replaceAll("\r\n", "\n").split("\n\n");
    text = frames.pop();
    for (const frame of frames) readFrame(frame, dialect, take);
  }
}

const NOTE = ": holdgate ";

function readFrame(frame, dialect, take) {
  let event = "";
  let data = "";
  for (const line of frame.split("\n")) {
    if (line.startsWith(NOTE)) take({ note: JSON.parse(line.slice(NOTE.length)) });
    else if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5);
  }
  if (!data || data.trim() === "[DONE]") return;
  const found = dialect.read(JSON.parse(data), event);
  if (found.text || found.thinking || found.error || found.note) take(found);
}
