// Models of the Vercel AI SDK that lead to a gateway: one for each dialect, and a package for others.

// It warns of models it does not know, on stdout.
globalThis.AI_SDK_LOG_WARNINGS = false;

const at = (url) => ({ baseURL: `${url}/v1`, apiKey: "none" });

export const models = {
  async "ai-chat"(url, model) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return createOpenAI(at(url)).chat(model);
  },
  async "ai-compatible"(url, model) {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    return createOpenAICompatible({ ...at(url), name: "holdgate", includeUsage: true })(model);
  },
  async "ai-responses"(url, model) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return createOpenAI(at(url)).responses(model);
  },
  async "ai-messages"(url, model) {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    return createAnthropic(at(url))(model);
  },
};
