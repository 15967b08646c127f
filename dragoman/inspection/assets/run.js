// The page of a training run: the one sentence that it opens.

function start() {
  const state = new State({
    kind: "cross", layer: RECORD.alignment_layer, head: MEAN, scale: "full", theme: theme(), hover: null, pin: null,
  });
  for (const side of ["source", "target"]) byId(`${side}-text`).lang = LANGUAGE[side];
  byId("alignment-layer").textContent = RECORD.alignment_layer + 1;
  showControls(state);
  new LinksView(byId("alignment"));
  new HeatMap(byId("heat"), state);
  new Overview(byId("attention"), state);
  preparePrinting(state);
  document.documentElement.dataset.ready = "";
}

start();
