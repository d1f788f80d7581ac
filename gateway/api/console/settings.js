// What a person has chosen on this device: theme, language, zone, single keys.
const DEFAULTS = { theme: "system", language: "", zone: "browser", keys: "on", try: "on" };

export function readSetting(name) {
  try {
    return localStorage.getItem(`holdgate.${name}`) ?? DEFAULTS[name];
  } catch {
    return DEFAULTS[name]; // storage can be switched off in the browser
  }
}

export function writeSetting(name, value) {
  try {
    localStorage.setItem(`holdgate.${name}`, value);
  } catch {
    // Then it holds until the page is closed.
  }
}

/** The chosen language, or the one the browser asks for. */
export function readLanguage() {
  const chosen = readSetting("language");
  return chosen || (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
}

export function applyTheme() {
  const theme = readSetting("theme");
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
