// The model of a static site, at work in a module worker, so that the page stays responsive. The page sends
// {number, settings} once, then {number, text, sentences} and perhaps {cancel: number}. It gets {progress}, and for
// each number {number, answer} or {number, error}. The settings are those of site.json.

const END = 3; // ids up to this one are symbols, no text
const MARK = "▁"; // SentencePiece writes it for a space
const MARGIN = 50; // subwords by which a translation may be longer than its source
const SYMBOL = /⟦([1-9])⟧/gu; // stands for a placeholder
const REMEMBERED = 500; // sentences: while somebody types, most of them stay the same
const base = new URL("./", import.meta.url).href;
const cancelled = new Set();

let model; // what load returns, as a promise

self.onmessage = async ({ data: { number, cancel, settings, ...request } }) => {
  if (cancel) return cancelled.add(cancel);
  try {
    if (settings) await (model = load(settings));
    self.postMessage({ number, answer: settings ? null : await translate(await model, number, request) });
  } catch (error) {
    self.postMessage({ number, error: error.message ?? `${error}` });
  } finally {
    cancelled.delete(number);
  }
};

/* Loading */

async function load(settings) {
  const address = (name) => `${base}${name}?${settings.version}`; // other files never have this one's address
  let loaded = 0;
  /** As fetch, for files of this site; it tells the page how much has arrived. */
  async function download(place) {
    const response = await fetch(address(`${place}`.replace(base, "")));
    if (!response.ok) throw new Error(`The server answers ${response.status} for ${place}.`);
    const count = new TransformStream({
      transform(bytes, controller) {
        loaded += bytes.byteLength;
        self.postMessage({ progress: { loaded, total: settings.bytes } });
        controller.enqueue(bytes);
      },
    });
    return new Response(response.body.pipeThrough(count), response);
  }

  const library = await import(address("runtime/transformers.min.js"));
  const { AutoModelForSeq2SeqLM, PreTrainedTokenizer, Tensor, env } = library;
  Object.assign(env, { allowLocalModels: true, allowRemoteModels: false, localModelPath: base, fetch: download });
  Object.assign(env, { useBrowserCache: false, useWasmCache: false }); // the service worker keeps everything
  const { wasm } = env.backends.onnx;
  wasm.numThreads = 1; // more of them need headers that few static hosts send
  wasm.wasmPaths = { mjs: address("runtime/ort-wasm-simd-threaded.mjs") };
  wasm.wasmBinary = await (await download("runtime/ort-wasm-simd-threaded.wasm")).arrayBuffer();

  async function tokenizer(name) {
    const content = await (await download(`model/${name}`)).json();
    const pieces = [];
    for (const [piece, id] of Object.entries(content.model.vocab)) pieces[id] = piece;
    return { pieces, cutter: new PreTrainedTokenizer(content, { clean_up_tokenization_spaces: false }) };
  }
  const first = await tokenizer("tokenizer.json");
  const second = settings.joint ? first : await tokenizer("target_tokenizer.json");
  const [source, target] = [{ ...settings.source, ...first }, { ...settings.target, ...second }];
  const network = await AutoModelForSeq2SeqLM.from_pretrained("model", { dtype: settings.dtype, device: "wasm" });
  const pattern = settings.placeholders && new RegExp(settings.placeholders, "gu");
  const symbols = pattern ? Array.from({ length: 9 }, (_, i) => target.pieces.indexOf(`⟦${i + 1}⟧`)) : [];
  return { ...settings, network, source, target, Tensor, pattern, symbols, known: new Map() };
}

/* A text: lines, sentences, and parts of sentences that are too long */

async function translate(model, number, { text, sentences }) {
  const alignment = { source: [], target: [], links: [] };
  const [lines, lost] = [[], []];
  for (const line of text.split("\n")) {
    const whole = line.trim();
    const kept = sentences === "keep" ? [whole] : split(whole, model.source.locale);
    const parts = kept.flatMap((one) => cut(model, one));
    let [joined, gap] = ["", ""];
    for (const part of parts.filter((one) => one.trim())) {
      await new Promise((resume) => setTimeout(resume)); // or no message would be read
      if (cancelled.has(number)) throw new Error("cancelled");
      const found = await remember(model, part.trim());
      if (found.text) joined += gap + found.text;
      gap = model.target.gap && (part.slice(part.trimEnd().length) || model.target.gap);
      const [first, second] = [alignment.source.length, alignment.target.length];
      alignment.links.push(...found.links.map(([s, t]) => [s + first, t + second]));
      alignment.source.push(...found.source);
      alignment.target.push(...found.target);
      lost.push(...found.lost);
    }
    lines.push(joined);
  }
  return { text: lines.join("\n"), alignment, lost };
}

/** The sentences of a line, with the spaces after them; what has no letters, or ends in an initial, is no sentence. */
function split(line, locale) {
  if (!Intl.Segmenter) return [line];
  const parts = [];
  for (const { segment } of new Intl.Segmenter(locale, { granularity: "sentence" }).segment(line)) {
    const before = parts.at(-1) ?? "";
    const ended = /[\p{L}\p{N}]/u.test(before) && !/(?:^|[\s.([«„“"-])\p{L}\.\s*$/u.test(before);
    if (ended && /[\p{L}\p{N}]/u.test(segment)) parts.push(segment);
    else parts.splice(-1, 1, before + segment);
  }
  return parts;
}

/** The text, or if it is longer than any that the model has learned from, its halves, cut where it hurts least. */
function cut(model, text) {
  if (read(model, text).ids.length <= model.longest) return [text];
  for (const pattern of [/[,;:]\s+|[،؛、，；：]\s*/gu, /\s+/gu, /./gsu]) {
    const ends = [...text.matchAll(pattern)].map((found) => found.index + found[0].length);
    const inside = ends.filter((end) => end < text.trimEnd().length);
    if (!inside.length) continue;
    const off = (end) => Math.abs(2 * end - text.length);
    const middle = inside.reduce((best, end) => (off(end) < off(best) ? end : best));
    return [text.slice(0, middle), text.slice(middle)].flatMap((half) => cut(model, half));
  }
  return [text];
}

/* A sentence */

async function remember(model, text) {
  const found = model.known.get(text) ?? (await translateSentence(model, text));
  model.known.delete(text);
  model.known.set(text, found); // the last one in order
  if (model.known.size > REMEMBERED) model.known.delete(model.known.keys().next().value);
  return found;
}

/** The ids of a text with symbols in place of its placeholders, if the model has them, and these. */
function read({ pattern, source }, text) {
  const placeholders = [];
  const hide = (found) => (placeholders.length < 9 ? `⟦${placeholders.push(found)}⟧` : found);
  const ids = source.cutter.encode(pattern ? text.replace(pattern, hide) : text, { add_special_tokens: false });
  return { ids: [...ids, END], placeholders };
}

async function translateSentence(model, text) {
  const { ids, placeholders } = read(model, text);
  const limit = Math.min(ids.length + MARGIN, model.maxLength - 1);
  const count = placeholders.length;
  let found = await search(model, ids, limit, []);
  const isWhole = ({ symbols }) => symbols.length === count && new Set(symbols).size === count;
  if (model.pattern && !isWhole(found)) found = await search(model, ids, limit, [once(model, count, limit)]);
  const restore = (one) => (model.pattern ? one.replace(SYMBOL, (_, n) => placeholders[n - 1] ?? "") : one);
  const [source, target] = [words(model.source, ids.slice(0, -1)), words(model.target, found.written)];
  return {
    text: restore(decode(model.target, found.written)),
    source: source.words.map(restore),
    target: target.words.map(restore),
    links: align(found.steps, source, target),
    lost: placeholders.filter((_, i) => found.symbols.filter((symbol) => symbol === i + 1).length !== 1),
  };
}

/** What the model writes if it takes the most probable subword each time, and the attention of each step. */
async function search(model, ids, limit, rules) {
  const tensor = (numbers) => new model.Tensor("int64", numbers.map(BigInt), [1, numbers.length]);
  const { sequences, cross_attentions: steps } = await model.network.generate({
    input_ids: tensor(ids),
    attention_mask: tensor(ids.map(() => 1)),
    max_length: limit + 2, // with <s> and </s>
    logits_processor: rules,
    return_dict_in_generate: true,
    output_attentions: true,
  });
  const written = sequences.tolist()[0].slice(1, limit + 1).map(Number).filter((id) => id > END);
  const symbols = written.map((id) => model.symbols.indexOf(id) + 1).filter((number) => number);
  return { written, symbols, steps: steps.map(([weights]) => weights.data) };
}

/** The rule of Dragoman's search by which the first symbols are written once each, instead of the end if need be. */
function once({ symbols }, count, limit) {
  return ([tokens], logits) => {
    const { data } = logits;
    const missing = symbols.slice(0, count).filter((id) => !tokens.includes(BigInt(id)));
    for (const id of symbols) if (!missing.includes(id)) data[id] = -Infinity;
    const room = limit + 1 - tokens.length;
    if (missing.length && room > 0) {
      const best = Math.max(data[missing[0]], data[END]);
      data.fill(-Infinity, ...(missing.length < room ? [END, END + 1] : []));
      data[missing[0]] = best;
    }
    return logits;
  };
}

const decode = ({ cutter }, ids) => (ids.length ? cutter.decode(ids).replaceAll("\n", " ") : "");

/** The words of a sentence, and the word of each subword. Where a language has no spaces, subwords count as words. */
function words(side, ids) {
  const places = [];
  let [word, spelt, before] = [0, false, ""];
  for (const piece of ids.map((id) => side.pieces[id])) {
    const bytes = /^<0x..>$/;
    const starts = side.spaced ? piece.startsWith(MARK) : !(bytes.test(piece) && bytes.test(before));
    if (starts && spelt) [word, spelt] = [word + 1, false];
    places.push(word);
    [spelt, before] = [spelt || piece !== MARK, piece];
  }
  const last = spelt ? word : Math.max(0, word - 1);
  const kept = places.map((place) => Math.min(place, last)); // a mark at the end belongs to the last word
  const all = kept.length ? Array.from({ length: last + 1 }, (_, i) => ids.filter((_, at) => kept[at] === i)) : [];
  return { places: kept, words: all.map((own) => decode(side, own)) };
}

/** Links of each target word to the source word that the steps which write it attend to most. */
function align(steps, source, target) {
  if (!source.words.length) return [];
  const totals = target.words.map(() => new Array(source.words.length).fill(0));
  target.places.forEach((t, step) => source.places.forEach((s, at) => (totals[t][s] += steps[step][at])));
  return totals.map((row, t) => [row.indexOf(Math.max(...row)), t]);
}
