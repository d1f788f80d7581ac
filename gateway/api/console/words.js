// The words of the chosen language. One flat table by page: say("live.title").
let table = {};
let language = "en";
let plurals = new Intl.PluralRules("en");

export const LANGUAGES = { en: "English", zh: "中文" };

const TABLES = {
  en: () => import("./words-en.json", { with: { type: "json" } }),
  zh: () => import("./words-zh.json", { with: { type: "json" } }),
};

/** Loads the table of a language and makes it the current one. */
export async function loadWords(name) {
  table = (await TABLES[name]()).default;
  language = name;
  plurals = new Intl.PluralRules(locale());
  document.documentElement.lang = locale();
}

/** The current language as `Intl` names it. */
export const locale = () => (language === "zh" ? "zh-CN" : "en-GB");

/** "en" or "zh", as members of the server's JSON are named. */
export const currentLanguage = () => language;

/** The sentence of a key with its {places} filled; the key itself where a word is missing. */
export function say(key, values = {}) {
  const text = table[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** As `say`, from `key.one` or `key.other`; {n} is the number as people write it. */
export function sayCount(key, n, values = {}) {
  const form = plurals.select(n) === "one" ? "one" : "other";
  return say(`${key}.${form}`, { n: n.toLocaleString(locale()), ...values });
}

/** The word of a code if there is one, else the code as it is. */
export const sayOr = (key, other) => table[key] ?? other;
