// What the search looked into: the translations that it finished, and the tree of its hypotheses.

/** The table of candidates, best first; a translation that the search did not find takes its place by score. */
function candidatesTable(body) {
  const rows = RECORD.candidates.map((candidate, i) => ({
    ...candidate,
    rank: `#${i + 1}`,
    length: candidate.labels.length,
    looked: i === RECORD.chosen,
  }));
  if (RECORD.chosen === -1) {
    const { target: text, score, log_prob } = RECORD;
    const given = { text, score, log_prob, rank: "–", length: STEPS, looked: true };
    const place = rows.findIndex((row) => row.score < score);
    rows.splice(place === -1 ? rows.length : place, 0, given);
  }
  for (const { rank, text, score, log_prob, length, looked } of rows) {
    const content = text || el("span", { class: "empty" }, "nothing");
    const words = el("td", { role: "cell", class: "text", dir: "auto", lang: LANGUAGE.target }, content);
    if (looked) words.append(" ", el("span", { class: "badge" }, "looked at"));
    const number = (name, value) => el("td", { role: "cell", class: "number", "data-name": name }, value);
    const figures = { score: fixed(score, 3), "log-prob.": fixed(log_prob, 3), length: `${length}` };
    const numbers = Object.entries(figures).map(([name, value]) => number(name, value));
    const place = el("th", { role: "rowheader", scope: "row" }, rank);
    body.append(el("tr", { role: "row", class: looked ? "looked" : "" }, place, words, ...numbers));
  }
}

/** The search's tree in lanes: a column for each step, and a lane for each branch as long as it lives. */
class BeamTree {
  constructor(root, state) {
    this.state = state;
    this.readout = byId("beam-readout");
    this.tree = root.querySelector(".tree");
    this.edges = this.tree.querySelector("svg");
    this.nodes = RECORD.tree.map((node) => ({ ...node, children: [], best: Infinity, deepest: node.depth }));
    this.trace();
    this.giveLanes();
    this.build();
    this.listen();
    state.on(["hover", "pin"], () => this.mark());
    state.on(["pin"], () => bringToMiddle(root.querySelector(".tree-scroller"), this.tree.querySelector(".focus")));
    new ResizeObserver(() => this.drawEdges()).observe(this.tree);
  }

  /** For every node, what it leads to: children, best candidate, deepest step. Parents come first in the record. */
  trace() {
    // The candidate that is looked at comes before all others, so that its path is the topmost lane.
    const preference = (candidate) => (candidate === RECORD.chosen ? -1 : candidate);
    for (const node of this.nodes) {
      node.up = this.nodes[node.parent] ?? null;
      node.up?.children.push(node);
      if (node.candidate >= 0) node.best = preference(node.candidate);
    }
    for (const { up, best, deepest } of [...this.nodes].reverse()) {
      if (!up) continue;
      up.best = Math.min(up.best, best);
      up.deepest = Math.max(up.deepest, deepest);
    }
    const given = this.givenPath();
    for (const node of this.nodes) {
      node.kind = given.has(node) || node.best === -1 ? "chosen" : node.best === Infinity ? "pruned" : "kept";
      node.heir = [...node.children].sort((a, b) => a.best - b.best || b.deepest - a.deepest)[0];
    }
  }

  /** The nodes that begin a translation which the search did not find: up to the step at which it left it. */
  givenPath() {
    const path = new Set();
    if (RECORD.chosen !== -1) return path;
    let children = this.nodes.filter((node) => !node.up);
    for (const output of RECORD.outputs) {
      const next = children.find((node) => node.piece === output);
      if (!next) break;
      path.add(next);
      children = next.children;
    }
    return path;
  }

  /** A branch keeps its lane while one child goes on with it; lanes are free again one step after a branch ends. */
  giveLanes() {
    const branches = [];
    for (const node of this.nodes) {
      if (node === node.up?.heir) node.branch = node.up.branch;
      else branches.push((node.branch = []));
      node.branch.push(node);
    }
    branches.sort(([a], [b]) => a.depth - b.depth || a.best - b.best || b.deepest - a.deepest);
    const ends = [];
    for (const branch of branches) {
      const free = ends.findIndex((end) => end < branch[0].depth - 1);
      const lane = free === -1 ? ends.length : free;
      ends[lane] = branch[branch.length - 1].depth;
      for (const node of branch) node.lane = lane;
    }
  }

  build() {
    const start = el("span", { class: "node start" }, piece(RECORD.input_labels[0], "target"));
    this.put(start, 0, 0);
    this.start = { element: start, log_prob: 0 };
    const depth = Math.max(-1, ...this.nodes.map((node) => node.depth));
    for (let step = 1; step <= depth + 1; step++) this.put(el("span", { class: "step-number" }, `${step}`), step, -1);
    this.nodes.forEach((node, i) => {
      const classes = `node ${node.kind}${node.candidate >= 0 ? " finished" : ""}`;
      const attributes = { type: "button", class: classes, "data-index": i, tabindex: -1 };
      node.element = el("button", attributes, piece(node.label, "target"));
      if (node.candidate >= 0) node.element.append(el("span", { class: "badge" }, `#${node.candidate + 1}`));
      this.put(node.element, node.depth + 1, node.lane);
    });
  }

  put(element, column, lane) {
    element.style.gridColumn = column + 1;
    element.style.gridRow = lane + 2;
    this.tree.append(element);
  }

  /** Probability of a node's subword after what stands before it. */
  stepProbability({ up, log_prob }) {
    return Math.exp(log_prob - (up ?? this.start).log_prob);
  }

  drawEdges() {
    const size = { width: this.tree.offsetWidth, height: this.tree.offsetHeight };
    const inOrder = ["pruned", "kept", "chosen"].flatMap((kind) => this.nodes.filter((node) => node.kind === kind));
    const paths = inOrder.map((node) => this.edge(node)); // all measured before anything is changed
    for (const [name, value] of Object.entries(size)) this.edges.setAttribute(name, value);
    this.edges.replaceChildren(...paths);
  }

  edge(node) {
    const from = (node.up ?? this.start).element;
    const to = node.element;
    const [x0, y0] = [from.offsetLeft + from.offsetWidth, from.offsetTop + from.offsetHeight / 2];
    const [x1, y1] = [to.offsetLeft, to.offsetTop + to.offsetHeight / 2];
    const turn = Math.max(x1 - 24, x0); // the bend lies in the gap before the node, past wider labels of other lanes
    const middle = (turn + x1) / 2;
    const d = `M${x0},${y0} H${turn} C${middle},${y0} ${middle},${y1} ${x1},${y1}`;
    return svg("path", { d, class: node.kind, "stroke-width": (1 + 4 * this.stepProbability(node)).toFixed(2) });
  }

  listen() {
    arrowKeys(this.tree, "button.node");
    const read = (event) => {
      const button = event.target.closest("button.node");
      if (button) this.read(this.nodes[button.dataset.index]);
    };
    for (const name of ["pointerover", "focusin", "click"]) this.tree.addEventListener(name, read);
  }

  read(node) {
    const path = [];
    for (let at = node; at; at = at.up) path.unshift(at);
    for (const other of this.nodes) other.element.classList.toggle("on-path", path.includes(other));
    const shown = path.slice(-12);
    const words = shown.flatMap(({ label }) => [piece(label, "target"), " "]);
    const direction = getComputedStyle(byId("target-text")).direction;
    const beginning = shown.length < path.length ? "… " : "";
    const text = el("span", { class: "path", dir: direction }, beginning, ...words);
    const chance = percent(this.stepProbability(node));
    const fate = node.best === Infinity ? "; leads to none of the candidates" : "";
    const end = node.candidate >= 0 ? `, finished as #${node.candidate + 1}` : fate;
    const total = el("b", { class: "number" }, fixed(node.log_prob, 3));
    const odds = [`step ${node.depth + 1}: ${chance} after what stands before it, log-probability `, total, end];
    this.readout.replaceChildren(text, el("span", {}, ...odds));
  }

  /** The step that is pointed at or pinned elsewhere on the page. */
  mark() {
    const { focus } = this.state;
    const depth = focus?.side === "target" ? focus.index : -1;
    for (const { element, kind, depth: at } of this.nodes) {
      element.classList.toggle("focus", kind === "chosen" && at === depth);
    }
  }
}
