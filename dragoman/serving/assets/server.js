// The back end of the page that a server sends: its HTTP API.

/** What there is to use; the server says the rest. */
export const features = {
  inspect: true,
  detect: false,
  apiKeys: false,
  offline: false,
  maxAlternatives: 3,
  charLimit: Infinity,
  first: null, // {source, target}: the languages to begin with
};

const LONGEST_WAIT = 20; // seconds

export async function start() {
  const { apiKeys, keyRequired, charLimit, alternativesLimit, language } = await ask("frontend/settings");
  features.apiKeys = Boolean(apiKeys || keyRequired);
  features.maxAlternatives = Math.min(features.maxAlternatives, alternativesLimit ?? Infinity);
  features.charLimit = charLimit > 0 ? charLimit : Infinity;
  if (language) features.first = { source: language.source.code, target: language.target.code };
}

export async function languages() {
  const all = (await ask("languages")).map((one) => ({ ...one, targets: one.targets.filter((code) => code !== one.code) }));
  features.detect = all.filter(({ targets }) => targets.length).length > 1;
  return all;
}

export async function translate({ source, target, text, alternatives, apiKey, signal }) {
  const body = { q: text, source, target, alternatives, alignments: true, api_key: apiKey };
  const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
  const [{ detectedLanguage, alternatives: others = [], ...best }] = (await ask("v1/translate", request)).translations;
  return {
    text: best.text,
    alternatives: others.map((other) => other.text),
    alignment: best.alignment ?? null,
    detected: detectedLanguage ?? null,
    lost: best.lost ?? [],
  };
}

/** The server's answer, as JSON. A busy server is asked once more, when it says. */
async function ask(address, request = {}, again = true) {
  let response;
  try {
    response = await fetch(address, request);
  } catch (error) {
    if (request.signal?.aborted) throw error;
    throw new Error("The server can't be reached. Check your connection.");
  }
  if (response.status === 503 && again) {
    await pause(Math.min(Number(response.headers.get("Retry-After")) || 1, LONGEST_WAIT), request.signal);
    return ask(address, request, false);
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw new Error(answer.error ?? `The server failed (${response.status}). Try again later.`);
}

const pause = (seconds, signal) =>
  new Promise((resolve, reject) => {
    setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => reject(signal.reason));
  });
