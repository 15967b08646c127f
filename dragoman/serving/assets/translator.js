// The translator's page: type on one side, read on the other. backend.js translates. el, byId, arrowKeys,
// followPointer, same and State come from dom.js, which the page loads before this module.

import * as backend from "./backend.js";

const { features } = backend;
const PAUSE = 250; // milliseconds without a key, after which the text is translated
const LONG = 240; // characters; a longer text has smaller letters, and no alternatives, as nobody compares those
const AUTO = "auto";
const KEY = "dragoman-api-key";
const RIGHT_TO_LEFT = ["Adlm", "Arab", "Hebr", "Mand", "Nkoo", "Rohg", "Syrc", "Thaa"]; // scripts, by ISO 15924

const source = byId("source");
const target = byId("target");
const others = byId("others");
const pickers = { source: byId("source-language"), target: byId("target-language") };
const words = new State({ hover: null, pin: null, links: [] }); // the words looked at; [source, target] of each link

let languages = [];
let versions = []; // {text, alignment} of the translation that is shown, then of its alternatives
let detected = null; // code of the language that the back end found
let timer;
let request = new AbortController();

/* Languages */

const languageOf = (code) => languages.find((language) => language.code === code);
const chosen = () => ({ source: pickers.source.value, target: pickers.target.value });
const nameOf = (code) => languageOf(code)?.name ?? code;
const targetsOf = (code) => {
  const all = code === AUTO ? languages.flatMap(({ targets }) => targets) : (languageOf(code)?.targets ?? []);
  return [...new Set(all)];
};
/** The language of the text: the one that is chosen, or else found; null if none is known yet. */
const sourceLanguage = () => (pickers.source.value === AUTO ? detected : pickers.source.value);

/** The direction of a language's script; "auto" for languages that the browser doesn't know. */
function directionOf(locale) {
  try {
    const { script } = new Intl.Locale(locale).maximize();
    return script ? (RIGHT_TO_LEFT.includes(script) ? "rtl" : "ltr") : "auto";
  } catch {
    return "auto"; // any name may be given to a language when a model is trained
  }
}

/** Tell the browser which language these elements are in, and in which direction they run. */
function setLanguage(elements, code) {
  const locale = code?.replaceAll("_", "-") ?? "";
  for (const element of elements) Object.assign(element, { lang: locale, dir: directionOf(locale) });
}

/** Choose one of these languages, or the first if it is none of them. One alone is a name, with nothing to choose. */
function pick(picker, codes, wanted) {
  const name = (code) => (code !== AUTO ? nameOf(code) : detected ? `${nameOf(detected)} (detected)` : "Detect language");
  picker.replaceChildren(...codes.map((value) => el("option", { value }, name(value))));
  picker.value = codes.includes(wanted) ? wanted : codes[0];
  picker.hidden = codes.length < 2;
  picker.nextElementSibling.hidden = !picker.hidden;
  picker.nextElementSibling.textContent = name(codes[0]);
}

function choose({ source: from, target: to }) {
  const sources = languages.filter(({ targets }) => targets.length).map(({ code }) => code);
  pick(pickers.source, features.detect ? [AUTO, ...sources] : sources, from ?? sources[0]);
  pick(pickers.target, targetsOf(pickers.source.value), to);
  byId("swap").hidden = !targetsOf(pickers.target.value).includes(sourceLanguage());
  history.replaceState(null, "", `#${pickers.source.value}-${pickers.target.value}`);
  setLanguage([source, byId("backdrop")], sourceLanguage());
  setLanguage([target, others], pickers.target.value);
}

/** The languages that the address names, as in #en-fr; codes may have hyphens of their own. */
function fromAddress() {
  const pairs = [AUTO, ...languages.map(({ code }) => code)].flatMap((from) =>
    targetsOf(from).map((to) => ({ source: from, target: to })),
  );
  return pairs.find((pair) => location.hash === `#${pair.source}-${pair.target}`);
}

function swap() {
  const [from, to] = [sourceLanguage(), pickers.target.value];
  source.value = versions[0]?.text ?? source.value;
  choose({ source: to, target: from });
  changed();
}

/* Translating */

const say = (text) => (byId("message").textContent = text);

/** Text, languages or key have changed: drop the request under way, and start another when typing pauses. */
function changed() {
  clearTimeout(timer);
  request.abort();
  const length = [...source.value].length;
  const limit = features.charLimit ?? Infinity;
  byId("count").textContent = length.toLocaleString("en") + (limit < Infinity ? ` / ${limit.toLocaleString("en")}` : "");
  byId("count").classList.toggle("over", length > limit);
  byId("clear").hidden = !source.value;
  target.ariaBusy = true;
  show(null);
  if (!languages.length) return;
  if (!source.value.trim()) answer([], null, []);
  else if (length <= limit) timer = setTimeout(translate, PAUSE);
  else fail(`The text is longer than ${limit.toLocaleString("en")} characters. Translate it in parts.`);
}

async function translate() {
  request = new AbortController();
  const { signal } = request;
  const [text, apiKey] = [source.value, byId("api-key").value || undefined];
  const alternatives = text.length > LONG ? 0 : features.maxAlternatives;
  try {
    const found = await backend.translate({ ...chosen(), text, alternatives, apiKey, signal });
    if (signal.aborted) return;
    const rest = found.alternatives.map((other) => ({ text: other, alignment: null }));
    answer([{ text: found.text, alignment: found.alignment }, ...rest], found.detected?.language ?? null, found.lost);
  } catch (error) {
    if (!signal.aborted) fail(error.message);
  }
}

/** Say what is wrong. The translation of the earlier text stays, dimmed, and can't be used. */
function fail(reason) {
  say(reason);
  for (const id of ["hint", "actions", "alternatives"]) byId(id).hidden = true;
}

/** Show what was found for the text that is there now. */
function answer(found, language, lost) {
  versions = found;
  if (language !== detected) {
    detected = language;
    choose(chosen());
  }
  say(lost.length ? `The translation has lost ${lost.join(", ")}.` : "");
  target.ariaBusy = false;
  showVersions();
}

function showVersions() {
  const [shown, ...rest] = versions;
  show(shown?.alignment);
  others.replaceChildren(...rest.map(({ text }) => el("li", {}, el("button", { type: "button" }, text))));
  byId("alternatives").hidden = !rest.length;
  byId("actions").hidden = !shown;
  byId("hint").hidden = !shown?.alignment;
}

/** Show the version that was clicked, and in its place the one that was shown. */
function exchange({ target: clicked }) {
  const index = [...others.children].indexOf(clicked.parentElement);
  if (index < 0 || target.ariaBusy === "true") return;
  [versions[0], versions[index + 1]] = [versions[index + 1], versions[0]];
  showVersions();
  others.children[index].firstChild.focus();
}

/* Words and what they come from */

/** Put both texts in their places, with the words that an alignment links as elements. */
function show(alignment) {
  const links = alignment?.links ?? [];
  document.body.classList.toggle("long", Math.max(source.value.length, versions[0]?.text.length ?? 0) > LONG);
  fill(byId("backdrop"), "source", source.value, alignment?.source ?? [], new Set(links.map(([s]) => s)));
  byId("backdrop").append("\u200b"); // or a line break at the end would have no height
  fill(target, "target", versions[0]?.text ?? "", alignment?.target ?? [], new Set(links.map(([, t]) => t)));
  const first = target.querySelector(".word");
  if (first) first.tabIndex = 0; // the arrow keys lead to the others
  words.set({ hover: null, pin: null, links });
}

/** Fill an element with a text. Those of all its words, in order, whose numbers are in linked become elements. */
function fill(container, side, text, all, linked) {
  const nodes = [];
  let end = 0;
  let cursor = 0;
  all.forEach((word, index) => {
    const start = word ? text.indexOf(word, cursor) : -1;
    if (start < 0) return;
    cursor = start + word.length;
    if (!linked.has(index)) return;
    const attributes = { class: "word", "data-side": side, "data-index": index };
    const node = el("span", side === "target" ? { ...attributes, tabindex: -1 } : attributes, word);
    nodes.push(text.slice(end, start), node);
    end = cursor;
  });
  container.replaceChildren(...nodes, text.slice(end));
}

const wordOf = (node) => node.matches(".word") && { side: node.dataset.side, index: Number(node.dataset.index) };

/** The word of the backdrop that is seen through the text field at this place; null if there is none. */
function wordBelow({ clientX, clientY }) {
  const nodes = document.elementsFromPoint(clientX, clientY).filter((node) => node.matches("#backdrop .word"));
  return nodes.length ? wordOf(nodes[0]) : null;
}

/** Light the word looked at and those linked with it, and say which they are. */
function light() {
  const { focus, links } = words;
  const partners = links.flatMap(([s, t]) => {
    if (same(focus, { side: "source", index: s })) return [{ side: "target", index: t }];
    return same(focus, { side: "target", index: t }) ? [{ side: "source", index: s }] : [];
  });
  const lit = { source: [], target: [] };
  for (const node of document.querySelectorAll(".word")) {
    const word = wordOf(node);
    const on = same(word, focus) || partners.some((partner) => same(partner, word));
    node.classList.toggle("lit", on);
    if (on) lit[word.side].push(node.textContent);
  }
  const quoted = (side) => lit[side].flatMap((text, i) => [i ? ", " : "", el("q", { lang: byId(side).lang }, text)]);
  byId("readout").replaceChildren(...(focus ? [...quoted("target"), " comes from ", ...quoted("source"), "."] : []));
}

/* What else can be done with the texts */

/** The sentence with the caret in it, or the first one if the caret is on an empty line. */
function sentenceAtCaret() {
  const sentences = new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(source.value);
  const at = sentences.containing(Math.min(source.selectionStart, source.value.length - 1))?.segment.trim();
  return at || [...sentences].map(({ segment }) => segment.trim()).find(Boolean) || "";
}

/** Fill the form that opens a sentence on a page of its own, and say which sentence that is. */
function fillForm() {
  const sentence = sentenceAtCaret();
  const shown = sentence === source.value.trim() && target.ariaBusy === "false"; // else the translation is of other text
  const fields = {
    source: sourceLanguage() ?? AUTO,
    target: pickers.target.value,
    q: sentence,
    translation: shown ? versions[0]?.text : "",
  };
  for (const [name, value] of Object.entries(fields)) {
    Object.assign(byId("inspect").elements[name], { value, disabled: !value });
  }
  byId("open").title = `See how the model translates “${sentence}”`;
}

async function copy() {
  try {
    await navigator.clipboard.writeText(versions[0].text);
    byId("readout").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(target); // browsers give the clipboard to secure pages only
    byId("readout").textContent = "The translation is selected. Copy it with the keyboard or the menu.";
  }
}

/** The field for a key; the browser keeps the key only if it is told to. */
function offerKey() {
  const [field, remember] = [byId("api-key"), byId("remember")];
  let store;
  try {
    store = localStorage;
  } catch {
    remember.disabled = true; // the browser keeps nothing
  }
  field.value = store?.getItem(KEY) ?? "";
  remember.checked = Boolean(field.value);
  const keep = () => (remember.checked ? store?.setItem(KEY, field.value) : store?.removeItem(KEY));
  field.addEventListener("input", () => (keep(), changed()));
  remember.addEventListener("change", keep);
  byId("key").hidden = false;
}

/* The start */

function showProgress({ loaded, total, message }) {
  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
  byId("loading").classList.remove("late");
  if (total) Object.assign(byId("progress"), { max: total, value: loaded });
  else byId("progress").removeAttribute("value");
  byId("loaded").textContent = message ?? `Downloading the model: ${megabytes(loaded)} of ${megabytes(total)} MB.`;
}

function listen() {
  source.addEventListener("input", changed);
  for (const picker of Object.values(pickers)) {
    picker.addEventListener("change", () => {
      detected = null;
      choose(chosen());
      changed();
    });
  }
  byId("swap").addEventListener("click", swap);
  byId("clear").addEventListener("click", () => {
    source.value = "";
    changed();
    source.focus();
  });
  others.addEventListener("click", exchange);
  byId("copy").addEventListener("click", copy);
  byId("inspect").addEventListener("submit", fillForm);
  document.addEventListener("selectionchange", fillForm);
  addEventListener("hashchange", () => (choose(fromAddress() ?? chosen()), changed()));
  addEventListener("online", changed);
  addEventListener("keydown", (event) => event.key === "Escape" && words.set({ hover: null, pin: null }));
  followPointer(target, words, wordOf);
  arrowKeys(target, ".word");
  source.addEventListener("pointermove", (event) => {
    const hover = wordBelow(event);
    if (!same(hover, words.hover)) words.set({ hover });
  });
  source.addEventListener("pointerleave", () => words.set({ hover: null }));
  source.addEventListener("click", (event) => words.set({ pin: wordBelow(event) }));
  words.on(["hover", "pin", "links"], light);
}

async function start() {
  listen();
  changed();
  try {
    await backend.start(showProgress);
    languages = await backend.languages();
    byId("inspect").hidden = !features.inspect;
    if (features.apiKeys) offerKey();
    choose(fromAddress() ?? features.first ?? {});
    changed();
  } catch (error) {
    say(error.message);
  }
  byId("loading").hidden = true;
}

start();
