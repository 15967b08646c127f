// The page as a whole: its head, what can be chosen, and the parts that show it.

function showHead() {
  document.title = `${RECORD.source} → ${RECORD.target}`;
  for (const side of ["source", "target"]) {
    byId(`${side}-text`).textContent = RECORD[side];
    byId(`${side}-text`).lang = LANGUAGE[side];
    for (const node of document.querySelectorAll(`[data-language=${side}]`)) {
      node.textContent = languageName(LANGUAGE[side]);
    }
  }
  byId("head").classList.toggle("long", Math.max(RECORD.source.length, RECORD.target.length) > 120);
  byId("alignment-layer").textContent = RECORD.alignment_layer + 1;
  byId("not-found").hidden = RECORD.chosen !== -1;
  if (RECORD.chosen === -1) byId("verdict").textContent = verdict();
  byId("rounding").hidden = RECORD.facts.search.precision === "fp32";
  for (const [name, text] of Object.entries(facts())) byId(`fact-${name}`).textContent = text;
}

/** Whose fault it is that a translation is none of those that the search found. */
function verdict() {
  const best = RECORD.candidates[0];
  if (!best || RECORD.score === null || best.score === null) return "";
  const { min_length, max_length } = RECORD.facts.search;
  const length = STEPS - 1; // as the limits count, without the end
  const longest = Math.min(RECORD.source_pieces.length + max_length, RECORD.facts.max_length - 1);
  if (length < min_length || length > Math.max(longest, min_length)) {
    return `The search was not allowed to write it: it is too ${length < min_length ? "short" : "long"}.`;
  }
  return RECORD.score > best.score
    ? "The model gives it a better score than anything the search found: the search missed it."
    : "The model prefers what the search found.";
}

function facts() {
  const { parameters, d_model, d_ff, num_heads, num_encoder_layers, num_decoder_layers, norm } = RECORD.facts;
  const size = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(parameters);
  const each = Math.exp(RECORD.log_prob / STEPS);
  return {
    model:
      `${num_encoder_layers} encoder and ${num_decoder_layers} decoder layers, ${plural(num_heads, "head")}, ` +
      `d_model ${d_model}, d_ff ${d_ff}, ${norm}-norm, ${size} parameters`,
    search: searchFacts(RECORD.facts.search),
    result:
      `log-probability ${fixed(RECORD.log_prob, 3)}, score ${fixed(RECORD.score, 3)}, ` +
      `${plural(STEPS, "subword")} at ${percent(RECORD.log_prob === null ? null : each)} each (geometric mean)`,
  };
}

function searchFacts({ beam, length_penalty, min_length, max_length, precision }) {
  const how = beam === 1 ? "greedy (beam 1)" : `beam ${beam}, length penalty α = ${length_penalty}`;
  const shortest = min_length ? `; no end before ${plural(min_length, "subword")}, whatever its rank` : "";
  const longest = `at most ${plural(max_length, "subword")} more than the source, whose end counts`;
  return `${how}, ${longest}${shortest}; in ${precision}`;
}

/** What to show first: near the beginning, but not at it, the step that looks most firmly at a word. */
function firstSight(layer) {
  const isWord = (label) => /[\p{L}\p{N}]{2}/u.test(label) && label !== "</s>";
  const firmness = RECORD.output_labels.slice(0, 12).map((label, index) => {
    const [{ weights }] = relationsOf({ side: "target", index }, { layer, head: MEAN });
    return isWord(label) && index > 1 ? Math.max(...weights.filter((_, i) => isWord(RECORD.source_labels[i]))) : 0;
  });
  return { side: "target", index: firmness.indexOf(Math.max(...firmness)) };
}

function start() {
  const layer = RECORD.alignment_layer;
  const sight = { hover: null, pin: firstSight(layer) };
  const state = new State({ kind: "cross", layer, head: MEAN, scale: "full", theme: theme(), ...sight });
  showHead();
  showControls(state);
  showSections();
  new SentenceView(byId("sentence"), state);
  inTurn([
    () => new HeatMap(byId("heat"), state),
    () => new Overview(byId("attention"), state),
    () => new StepsView(byId("probabilities"), state),
    () => candidatesTable(byId("candidates")),
    () => new BeamTree(byId("beam"), state),
    () => new LinksView(byId("alignment")),
    () => preparePrinting(state),
    () => (document.documentElement.dataset.ready = ""),
  ]);
}

/** One task after the other, with room in between for the reader's hand: what is on top can be used at once. */
function inTurn(tasks) {
  if (!tasks.length) return;
  setTimeout(() => {
    tasks[0]();
    inTurn(tasks.slice(1));
  });
}

start();
