// How sure the model was: each step's probabilities.

const SHADES = 5; // of the runners-up in a bar

class StepsView {
  constructor(root, state) {
    const list = root.querySelector(".steps");
    this.items = RECORD.predictions.map((prediction, t) => this.step(prediction, t));
    list.append(...this.items);
    list.classList.toggle("long", STEPS > 24);
    const find = (node) => {
      const item = node.closest(".step");
      return item && { side: "target", index: Number(item.dataset.index) };
    };
    followPointer(list, state, find);
    arrowKeys(list, ".step-name");
    state.on(["hover", "pin"], () => this.mark(state));
    state.on(["pin"], () => state.pin?.side === "target" && bringToMiddle(list, this.items[state.pin.index]));
  }

  step(prediction, t) {
    const { label, probability, rank } = prediction;
    const name = el(
      "button",
      { type: "button", class: "step-name" },
      el("span", { class: "read" }, piece(RECORD.input_labels[t], "target"), " → "),
      piece(label, "target"),
    );
    const others = runnersUp(prediction);
    return el(
      "li",
      { class: "step", "data-index": t },
      el("span", { class: "step-number" }, `${t + 1}`),
      name,
      this.bar(probability, others),
      el("span", { class: "number" }, percent(probability)),
      el("span", { class: rank === 1 ? "rank" : "rank surprising" }, `#${rank.toLocaleString("en")}`),
      el("span", { class: "others" }, ...others.flatMap(other)),
    );
  }

  /** The whole bar is a probability of 1; what is left empty belongs to all other subwords together. */
  bar(probability, others) {
    const parts = [[probability, "chosen"], ...others.map(([, p], i) => [p, `runner shade${Math.min(i + 1, SHADES)}`])];
    const bars = parts.map(([part, name]) => {
      const bar = el("i", { class: name });
      bar.style.flexBasis = `${100 * (part ?? 0)}%`;
      return bar;
    });
    return el("span", { class: "mass", "aria-hidden": "true" }, ...bars);
  }

  mark(state) {
    const { focus, pin } = state;
    this.items.forEach((item, t) => {
      const here = { side: "target", index: t };
      item.classList.toggle("focus", same(here, focus));
      item.querySelector(".step-name").setAttribute("aria-pressed", same(here, pin));
    });
  }
}

/** The likeliest subwords but for the one that the translation has. */
function runnersUp({ label, probability, likeliest }) {
  const chosen = likeliest.findIndex(([text, p]) => text === label && p === probability);
  return likeliest.filter((_, i) => i !== chosen).slice(0, SHADES);
}

function other([label, probability]) {
  return [
    el("span", { class: "other" }, piece(label, "target"), " ", el("span", { class: "number" }, percent(probability))),
    " ",
  ];
}
