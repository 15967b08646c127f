// The sentence, subword by subword: point at one and see what it looks at, and what looks at it.

const SHOWN = 6; // rows of a list of weights
const CURVES_UP_TO = 80; // subwords of both sentences; more stand in two columns, where curves would hide the text

/**
 * What lights up for a subword: two kinds of attention, each with the chips that it falls on.
 * `weights[i]` belongs to chip `first + i` of that side.
 */
function relationsOf({ side, index }, { layer, head }) {
  const row = (kind) => {
    const block = blockOf(kind, layer);
    return block.head(head).slice(index * block.columns, (index + 1) * block.columns);
  };
  const column = (kind) => {
    const block = blockOf(kind, layer);
    return Float32Array.from({ length: block.rows }, (_, t) => block.head(head)[t * block.columns + index]);
  };
  if (side === "target") {
    // Of the decoder's inputs, <s> is chip 0 and the word predicted at step t is chip t + 1.
    const read = row("decoder").slice(0, index + 1);
    return [
      { kind: "cross", side: "source", first: 0, weights: row("cross"), title: "looks at the source" },
      { kind: "decoder", side: "target", first: 0, weights: read, title: "looks back at" },
    ];
  }
  return [
    { kind: "encoder", side: "source", first: 0, weights: row("encoder"), title: "looks at the source" },
    { kind: "cross", side: "target", first: 1, weights: column("cross"), title: "is looked at while predicting" },
  ];
}

class SentenceView {
  constructor(root, state) {
    this.state = state;
    this.parallel = root.querySelector(".parallel");
    this.curves = root.querySelector(".curves");
    this.headline = root.querySelector(".headline");
    this.lists = root.querySelector(".lists");
    this.chips = { source: this.sourceChips(), target: this.targetChips() };
    this.labels = { source: RECORD.source_labels, target: [RECORD.input_labels[0], ...RECORD.output_labels] };
    const long = RECORD.source_labels.length + STEPS > CURVES_UP_TO;
    this.parallel.classList.toggle("long", long);
    for (const side of ["source", "target"]) this.fill(root.querySelector(`.chips.${side}`), side);
    followPointer(this.parallel, state, (node) => this.find(node));
    arrowKeys(this.parallel, "button.chip");
    state.on(["hover", "pin", "layer", "head", "theme"], () => this.show());
    if (long) state.on(["pin"], () => this.showPinned());
    else onWidth(root, () => this.show());
  }

  sourceChips() {
    return RECORD.source_labels.map((label, i) => this.chip("source", i, label));
  }

  targetChips() {
    const label = piece(RECORD.input_labels[0], "target");
    const start = el("span", { class: "chip start" }, label, el("span", { class: "weight" }));
    return [start, ...RECORD.output_labels.map((label, t) => this.chip("target", t, label))];
  }

  chip(side, index, label) {
    const attributes = { type: "button", class: "chip", "data-side": side, "data-index": index };
    return el("button", attributes, piece(label, side), el("span", { class: "weight" }));
  }

  /** The chips in a row, those of a word close together. */
  fill(container, side) {
    // A container of isolated labels has no direction of its own: it takes that of the whole sentence.
    container.dir = getComputedStyle(byId(`${side}-text`)).direction;
    const numbers = side === "source" ? RECORD.source_words : [-1, ...RECORD.target_words];
    this.chips[side].forEach((chip, i) => {
      const continues = i > 0 && numbers[i] >= 0 && numbers[i] === numbers[i - 1];
      if (!continues) container.append(el("span", { class: "chip-word" }));
      container.lastChild.append(chip);
    });
  }

  find(node) {
    const chip = node.closest("button.chip");
    return chip && { side: chip.dataset.side, index: Number(chip.dataset.index) };
  }

  show() {
    const { focus, pin } = this.state;
    for (const chip of [...this.chips.source, ...this.chips.target]) this.clear(chip);
    this.curves.replaceChildren();
    if (pin) this.chipOf(pin).setAttribute("aria-pressed", "true");
    const relations = focus ? relationsOf(focus, this.state) : [];
    this.headline.replaceChildren(...(focus ? this.summary(focus) : ["Point at a word, or tap it."]));
    this.lists.replaceChildren(...relations.map((relation) => this.list(relation)));
    if (!focus) return;
    this.chipOf(focus).classList.add("focus");
    for (const relation of relations) this.light(relation);
    if (focus.side === "target") this.markStep(focus.index);
    const cross = relations.find(({ kind }) => kind === "cross");
    this.drawCurves(focus, cross);
  }

  showPinned() {
    const chip = this.state.pin && this.chipOf(this.state.pin);
    if (chip) bringToMiddle(chip.closest(".chips"), chip);
  }

  chipOf({ side, index }) {
    return this.chips[side][side === "target" ? index + 1 : index];
  }

  clear(chip) {
    chip.classList.remove("focus", "reads", "future");
    if (chip.localName === "button") chip.setAttribute("aria-pressed", "false");
    chip.style.removeProperty("background-color");
    chip.style.removeProperty("color");
    delete chip.dataset.weight;
    chip.lastChild.textContent = "";
  }

  light({ kind, side, first, weights }) {
    const colours = TABLES[theme()][kind];
    weights.forEach((weight, i) => {
      const chip = this.chips[side][first + i];
      const colour = colours[shade(weight)];
      chip.style.backgroundColor = css(colour);
      chip.style.color = inkOn(colour);
      chip.dataset.weight = weight.toFixed(5);
      chip.lastChild.textContent = weight >= 0.005 ? weight.toFixed(2) : "";
    });
  }

  /** The step that predicts output t has read the chips up to t; those from t + 2 on are its future. */
  markStep(step) {
    this.chips.target[step].classList.add("reads");
    for (const chip of this.chips.target.slice(step + 2)) chip.classList.add("future");
  }

  drawCurves(focus, { kind, side, first, weights }) {
    if (this.parallel.classList.contains("long")) return;
    const frame = this.parallel.getBoundingClientRect();
    this.curves.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    const end = (chip, edge) => {
      const box = chip.getBoundingClientRect();
      return [box.left + box.width / 2 - frame.left, box[edge] - frame.top];
    };
    const [x0, y0] = end(this.chipOf(focus), focus.side === "target" ? "top" : "bottom");
    const stroke = strong(kind);
    const curve = (weight, i) => {
      const [x1, y1] = end(this.chips[side][first + i], side === "source" ? "bottom" : "top");
      const middle = (y0 + y1) / 2;
      const d = `M${x0},${y0} C${x0},${middle} ${x1},${middle} ${x1},${y1}`;
      return svg("path", { d, stroke, "stroke-width": 1 + 7 * weight, opacity: 0.25 + 0.65 * Math.sqrt(weight) });
    };
    const visible = [...weights.keys()].filter((i) => weights[i] >= 0.02);
    this.curves.append(...visible.map((i) => curve(weights[i], i)));
  }

  summary({ side, index }) {
    if (side === "source") return ["The source subword ", piece(RECORD.source_labels[index], "source")];
    const { probability, rank } = RECORD.predictions[index];
    const odds = `, probability ${percent(probability)}, rank ${rank.toLocaleString("en")}`;
    const read = piece(RECORD.input_labels[index], "target");
    const predicted = piece(RECORD.output_labels[index], "target");
    return [`Step ${index + 1} of ${STEPS} reads `, read, " and predicts ", predicted, odds];
  }

  /** The largest weights of one kind, with bars. */
  list({ kind, side, first, weights, title }) {
    const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
    const items = order.slice(0, SHOWN).map((i) => {
      const bar = el("span", { class: "bar" });
      bar.style.setProperty("--part", weights[i]);
      bar.style.setProperty("--colour", strong(kind));
      const number = el("span", { class: "number" }, weights[i].toFixed(4));
      return el("li", {}, piece(this.labels[side][first + i], side), bar, number);
    });
    const rest = order.slice(SHOWN).reduce((sum, i) => sum + weights[i], 0);
    const more = order.length > SHOWN ? `and ${order.length - SHOWN} more, together ${rest.toFixed(4)}` : "";
    const heading = el("h4", {}, el("i", { class: `dot ${kind}` }), title);
    const place = `${KINDS[kind].title}, ${placeName(kind, this.state.layer, this.state.head)}`;
    const where = el("p", { class: "where" }, place);
    return el("div", { class: "list" }, heading, where, el("ol", {}, ...items), el("p", { class: "more" }, more));
  }
}
