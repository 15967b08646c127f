// The record that Inspection.to_dict wrote, in a form that is easy to ask.
// Shapes: S source subwords, T target steps, H heads.

const RECORD = JSON.parse(byId("record").textContent);
const [SOURCE, TARGET] = RECORD.languages.map((code) => code.replaceAll("_", "-")); // "zh_TW" → "zh-TW", as in HTML
const LANGUAGE = { source: SOURCE, target: TARGET };
const STEPS = RECORD.outputs.length;

/** A label, isolated: its writing direction neither takes nor gives direction to its surroundings. */
function piece(label, side) {
  return el("bdi", { class: "piece", lang: LANGUAGE[side] }, label);
}

/** Instead of the number of a head: the mean of all. */
const MEAN = -1;

/** The three uses of attention (section 3.2.3). Rows are queries, columns what they look at. */
const KINDS = {
  cross: {
    title: "Cross-attention",
    stack: "decoder",
    block: "cross_attention",
    rows: "target",
    columns: { side: "source", labels: RECORD.source_labels },
  },
  decoder: {
    title: "Decoder self-attention",
    stack: "decoder",
    block: "self_attention",
    rows: "target",
    columns: { side: "target", labels: RECORD.input_labels },
  },
  encoder: {
    title: "Encoder self-attention",
    stack: "encoder",
    block: "self_attention",
    rows: "source",
    columns: { side: "source", labels: RECORD.source_labels },
  },
};

/** One layer's attention: weights by head, decoded when they are first asked for; a long sentence has megabytes. */
class Block {
  constructor({ shape, data }) {
    [this.heads, this.rows, this.columns] = shape;
    this.data = data;
    this.decoded = new Map();
  }

  /** Weights of one head, or the mean of all: Float32Array (T * S), row by row. */
  head(number) {
    if (!this.decoded.has(number)) this.decoded.set(number, number === MEAN ? this.mean() : this.decode(number));
    return this.decoded.get(number);
  }

  decode(number) {
    this.bytes ??= atob(this.data);
    const size = this.rows * this.columns;
    const weights = new Float32Array(size);
    for (let i = 0, byte = 2 * size * number; i < size; i++, byte += 2) {
      weights[i] = (this.bytes.charCodeAt(byte) + 256 * this.bytes.charCodeAt(byte + 1)) / 65535;
    }
    return weights;
  }

  mean() {
    const sum = new Float32Array(this.rows * this.columns);
    for (let h = 0; h < this.heads; h++) this.head(h).forEach((weight, i) => (sum[i] += weight));
    return sum.map((weight) => weight / this.heads);
  }
}

const BLOCKS = new Map(Object.entries(RECORD.maps).map(([name, map]) => [name, new Block(map)]));
const HEADS = [...BLOCKS.values()][0].heads;

/** Number of layers in the stack that a kind belongs to. */
function layersOf(kind) {
  const { stack, block } = KINDS[kind];
  return [...BLOCKS.keys()].filter((name) => name.startsWith(`${stack}.`) && name.endsWith(`.${block}`)).length;
}

const LAYERS = Math.max(...Object.keys(KINDS).map(layersOf));

/** The layer, from 0, that is shown where `layer` is asked for: the stacks may differ in height. */
const layerOf = (kind, layer) => Math.min(layer, layersOf(kind) - 1);

function blockOf(kind, layer) {
  const { stack, block } = KINDS[kind];
  return BLOCKS.get(`${stack}.${layerOf(kind, layer)}.${block}`);
}

/** Whether the mask of section 3.2.3 hides a cell: the decoder must not look at what it has not read yet. */
const isMasked = (kind, row, column) => kind === "decoder" && column > row;

/** "decoder layer 2, head 3" */
function placeName(kind, layer, head) {
  const heads = head === MEAN ? `mean of ${plural(HEADS, "head")}` : `head ${head + 1}`;
  return `${KINDS[kind].stack} layer ${layerOf(kind, layer) + 1}, ${heads}`;
}

/** The English name of a language, or its code where that is no language's. */
function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code; // any name may be given to a language when a model is trained
  }
}

/** Words as text, from subwords as SentencePiece writes them and the word that each belongs to. */
function wordsOf(pieces, numbers) {
  const words = [];
  pieces.forEach((text, i) => {
    if (numbers[i] >= 0) words[numbers[i]] = (words[numbers[i]] ?? "") + text;
  });
  return words.map((word) => withBytes(word.replace(/^▁+/u, "").replaceAll("▁", " ")) || "␣");
}

const CONTROLS = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Characters that were spelt in bytes, put together; controls among them stay visible, as everywhere else. */
function withBytes(word) {
  return word.replace(/(?:<0x[0-9A-F]{2}>)+/gu, (run) => {
    const digits = run.match(/[0-9A-F]{2}/gu);
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(
        Uint8Array.from(digits, (hex) => parseInt(hex, 16)),
      );
      return text.replace(CONTROLS, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
    } catch {
      return digits.map((hex) => `⟨${hex}⟩`).join(""); // half a character
    }
  });
}
