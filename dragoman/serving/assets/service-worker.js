// Keeps the files of a static site, so that it works without a network after the first visit.

const VERSION = /^\?[0-9a-f]{12}$/; // of a model, in the addresses of its files, which never change

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  if (method === "GET" && url.startsWith(registration.scope)) event.respondWith(answer(event));
});

async function answer(event) {
  const { request } = event;
  const cache = await caches.open(registration.scope);
  const kept = () => cache.match(request, { ignoreVary: true });
  const isVersioned = VERSION.test(new URL(request.url).search);
  const known = isVersioned && (await kept());
  if (known) return known;
  try {
    // The browser's own cache might not ask for days whether there is a new model.
    const response = await fetch(request, isVersioned ? {} : { cache: "no-cache" });
    if (response.ok) event.waitUntil(cache.put(request, response.clone()));
    return response;
  } catch (error) {
    const old = await kept();
    if (old) return old;
    throw error;
  }
}
