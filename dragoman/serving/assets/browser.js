// The back end of a static site: a worker translates here, in the browser. site.json says what it has.

export const features = { inspect: false, detect: false, apiKeys: false, offline: true, maxAlternatives: 0 };

const PATIENCE = 5000; // milliseconds to wait for a service worker, which not every browser lets work
const waiting = new Map(); // the functions that settle each request, by its number
let settings, worker;
let count = 0;

/** Load the model; onProgress gets {loaded, total} in bytes. */
export async function start(onProgress) {
  if (typeof WebAssembly === "undefined") {
    throw new Error("This browser can't translate, as it has no WebAssembly. Update it, or take another one.");
  }
  await startServiceWorker();
  try {
    settings = await (await fetch("site.json")).json();
    // A worker that is loaded from its own address follows no policy; one from a blob follows that of the page.
    const script = `import ${JSON.stringify(new URL("worker.js", document.baseURI))};`;
    worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
    worker.onmessage = ({ data }) => (data.progress ? onProgress(data.progress) : settle(data));
    worker.onerror = () => [...waiting.keys()].forEach((number) => settle({ number, error: "files are missing" }));
    await ask({ settings });
  } catch ({ message }) {
    throw new Error(`The translator can't start: ${message} Reload the page, or try another browser.`);
  }
  if (navigator.serviceWorker?.controller) keepFiles().catch(() => {}); // without room it translates all the same
}

/** The languages of the model, which translates from the first to the second. */
export async function languages() {
  const { source, target } = settings;
  return [
    { code: source.language, name: nameOf(source.locale), targets: [target.language] },
    { code: target.language, name: nameOf(target.locale), targets: [] },
  ];
}

/** Translate a text line by line; with sentences "keep", lines are not split into sentences. */
export async function translate({ text, sentences, signal }) {
  signal?.throwIfAborted();
  const answer = ask({ text, sentences });
  const number = count;
  signal?.addEventListener("abort", () => {
    worker.postMessage({ cancel: number });
    settle({ number, error: signal.reason });
  });
  return { ...(await answer), alternatives: [], detected: null };
}

function ask(request) {
  const number = ++count;
  worker.postMessage({ ...request, number });
  return new Promise((resolve, reject) => waiting.set(number, { resolve, reject }));
}

function settle({ number, answer, error }) {
  const { resolve, reject } = waiting.get(number) ?? {};
  waiting.delete(number);
  if (error) reject?.(typeof error === "string" ? new Error(error) : error);
  else resolve?.(answer);
}

function nameOf(locale) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(locale);
  } catch {
    return locale; // any name may be given to a language when a model is trained
  }
}

/** Start the service worker before the model is loaded, so that all of it passes through and is kept. */
async function startServiceWorker() {
  const services = navigator.serviceWorker; // none on pages without https
  const started = services && new Promise((resolve) => services.addEventListener("controllerchange", resolve));
  try {
    const registration = await services?.register("service-worker.js");
    if (!registration || registration.active) return;
    await Promise.race([started, new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
  } catch {
    // Some browsers have none in private windows.
  }
}

/** Have the service worker keep the files that were loaded before it started, and drop those of an earlier model. */
async function keepFiles() {
  await Promise.all(["./", "site.json", ...settings.light].map((name) => fetch(name)));
  const { scope } = await navigator.serviceWorker.ready;
  const cache = await caches.open(scope);
  for (const { url } of await cache.keys()) {
    const { search } = new URL(url);
    if (search && search !== `?${settings.version}`) await cache.delete(url);
  }
}
