// Small multiples: every layer and head of one kind at a glance, each a button that opens it; and the colour scale.

const TICKS = [0, 0.05, 0.25, 0.5, 1];

class Overview {
  constructor(root, state) {
    this.state = state;
    this.grid = root.querySelector(".overview");
    this.legend = root.querySelector(".legend");
    state.on(["kind"], () => this.build());
    state.on(["layer", "head"], () => this.mark());
    state.on(["kind", "scale", "theme"], () => this.paint());
    state.on(["layer", "head"], () => state.scale === "full" || this.paint());
    state.on(["kind", "layer", "head", "scale", "theme"], () => this.showLegend());
    arrowKeys(this.grid, ".thumbnail");
    this.grid.addEventListener("click", (event) => {
      const button = event.target.closest(".thumbnail");
      if (button) state.set({ layer: Number(button.dataset.layer), head: Number(button.dataset.head) });
    });
  }

  build() {
    const { kind } = this.state;
    const heads = [MEAN, ...Array(HEADS).keys()];
    this.grid.style.setProperty("--heads", heads.length);
    this.thumbnails = [];
    const top = heads.map((head) => el("span", { class: "head-name" }, head === MEAN ? "mean" : `${head + 1}`));
    const cells = [el("span", { class: "corner-name" }), ...top];
    for (let layer = 0; layer < layersOf(kind); layer++) {
      cells.push(el("span", { class: "layer-name" }, `layer ${layer + 1}`));
      for (const head of heads) cells.push(this.thumbnail(kind, layer, head));
    }
    this.grid.replaceChildren(...cells);
    this.mark();
  }

  thumbnail(kind, layer, head) {
    const attributes = { type: "button", class: "thumbnail", "data-layer": layer, "data-head": head, tabindex: -1 };
    const button = el("button", { ...attributes, "aria-label": placeName(kind, layer, head) }, el("canvas"));
    const { rows, columns } = blockOf(kind, layer);
    button.style.aspectRatio = Math.max(0.7, Math.min(1.4, columns / rows));
    this.thumbnails.push(button);
    return button;
  }

  /** The one that is shown large; it is also where the Tab key arrives. */
  mark() {
    const { kind, layer, head } = this.state;
    for (const button of this.thumbnails) {
      const shown = Number(button.dataset.layer) === layerOf(kind, layer) && Number(button.dataset.head) === head;
      button.setAttribute("aria-pressed", shown);
      button.tabIndex = shown ? 0 : -1;
    }
  }

  paint() {
    const { kind } = this.state;
    const top = topOf(this.state); // one scale for all, that of the legend
    for (const button of this.thumbnails) {
      const [layer, head] = [Number(button.dataset.layer), Number(button.dataset.head)];
      paintPixels(button.firstChild, kind, layer, head, top);
    }
  }

  showLegend() {
    const { kind } = this.state;
    const top = topOf(this.state);
    const colours = TABLES[theme()][kind];
    const bar = el("div", { class: "legend-bar" });
    const stops = Array.from({ length: 9 }, (_, i) => css(colours[Math.round((i / 8) * 255)]));
    bar.style.backgroundImage = `linear-gradient(to right, ${stops.join(", ")})`;
    const ticks = TICKS.map((part) => {
      const tick = el("span", { class: "tick" }, String(Number((part * top).toPrecision(2))));
      tick.style.left = `${100 * Math.sqrt(part)}%`;
      return tick;
    });
    const scale = el("div", { class: "legend-scale" }, bar, el("div", { class: "ticks" }, ...ticks));
    const masked = el("span", { class: "legend-masked" }, el("i", { class: "swatch" }), "masked");
    this.legend.replaceChildren(el("span", {}, "weight"), scale, ...(kind === "decoder" ? [masked] : []));
  }
}
