// One head's weights as a heat map. Only the visible part is painted, so the size of the sentence does not matter.

const CELL = { smallest: 3, largest: 64, comfortable: 44, readable: 14, tilted: 26, numbered: 34 }; // CSS pixels

/** Scripts that are read upright from top to bottom, too, and need no turning above a narrow column. */
const UPRIGHT = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}·。、！？]+$/u;

const HEAT_HINT = "Point at a cell, or press Tab until the map has the focus and use the arrow keys.";

/** What a row is about: a source subword, or the step of the decoder that reads one subword and predicts another. */
function rowLabel(kind, row) {
  if (KINDS[kind].rows === "source") return [piece(RECORD.source_labels[row], "source")];
  const read = el("span", { class: "read" }, piece(RECORD.input_labels[row], "target"), " → ");
  return [read, piece(RECORD.output_labels[row], "target")];
}

class HeatMap {
  constructor(root, state) {
    this.state = state;
    for (const part of ["scroller", "corner", "columns", "rows", "cells"]) {
      this[part] = root.querySelector(`.heat-${part}`);
    }
    this.style = getComputedStyle(this.scroller); // stays up to date
    this.canvas = this.cells.querySelector("canvas");
    this.pixels = document.createElement("canvas"); // a pixel for each cell
    this.picture = document.createElement("canvas"); // what is visible, without marks
    this.marked = [];
    this.readout = byId("heat-readout");
    this.cursor = null; // {row, column}: under the pointer, or moved by keys
    this.zoom = null; // edge of a cell, or "fit", where the reader has chosen
    this.listen(root);
    state.on(["kind", "layer", "head", "scale", "theme"], () => this.render());
    state.on(["hover", "pin"], () => this.paintMarks());
    state.on(["pin"], () => this.showPinned());
    onWidth(root, () => this.layOut());
  }

  listen(root) {
    const { cells } = this;
    this.scroller.addEventListener("scroll", () => requestAnimationFrame(() => this.paint()), { passive: true });
    cells.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.point(this.cellAt(event)));
    cells.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.point(null));
    cells.addEventListener("click", (event) => {
      this.point(this.cellAt(event));
      this.pin();
    });
    cells.addEventListener("keydown", (event) => this.key(event));
    cells.addEventListener("focus", () => {
      if (cells.matches(":focus-visible")) this.point(this.cursor ?? { row: 0, column: 0 });
    });
    for (const button of root.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => this.zoomBy(button.dataset.zoom));
    }
  }

  get block() {
    return blockOf(this.state.kind, this.state.layer);
  }

  /** Everything anew: another head, another kind, other colours. */
  render() {
    const { kind, layer, head } = this.state;
    paintPixels(this.pixels, kind, layer, head, topOf(this.state));
    if (this.kind !== kind) {
      this.kind = kind;
      this.cursor = null;
      this.label();
    }
    const name = `${KINDS[kind].title}, ${placeName(kind, layer, head)}`;
    this.cells.setAttribute("aria-label", `${name}: heat map, ${this.block.rows} by ${this.block.columns}`);
    byId("heat-title").textContent = name;
    this.layOut();
    this.point(this.cursor);
  }

  label() {
    const { rows, columns } = KINDS[this.kind];
    const steps = rows === "target";
    this.corner.replaceChildren(
      el("span", { class: "columns-axis" }, "looks at →"),
      el("span", { class: "rows-axis" }, steps ? "reads → predicts ↓" : "source ↓"),
    );
    this.rowLabels = Array.from({ length: this.block.rows }, (_, i) =>
      el("div", { class: "label" }, ...rowLabel(this.kind, i)),
    );
    this.columnLabels = columns.labels.map((text) =>
      el("div", { class: UPRIGHT.test(text) ? "label upright" : "label" }, piece(text, columns.side)),
    );
    this.rows.replaceChildren(...this.rowLabels);
    this.columns.replaceChildren(...this.columnLabels);
  }

  /** Sizes of cells and labels. */
  layOut() {
    const { rows, columns } = this.block;
    const space = this.scroller.parentElement.clientWidth - 4;
    this.scroller.style.setProperty("--rows-limit", `${Math.floor(Math.min(240, 0.4 * space))}px`);
    this.measureRows(CELL.comfortable);
    const fitting = Math.floor((space - this.rowsWidth - 16) / columns);
    const automatic = Math.max(CELL.readable, Math.min(CELL.comfortable, fitting));
    const whole = Math.max(CELL.smallest, Math.min(CELL.largest, fitting));
    this.cell = isPrinting() ? Math.min(automatic, whole) : this.zoom === "fit" ? whole : (this.zoom ?? automatic);
    this.measureRows(this.cell);
    this.placeLabels();
    this.cells.style.width = `${columns * this.cell}px`;
    this.cells.style.height = `${rows * this.cell}px`;
    this.paint();
  }

  /** Labels are as large as the cells allow; the column for those of the rows is as wide as they need. */
  measureRows(cell) {
    this.scroller.style.setProperty("--label-size", `${Math.max(9, Math.min(14, 0.7 * cell))}px`);
    this.rowsWidth = Math.max(108, ...this.rowLabels.map((label) => label.offsetWidth));
  }

  placeLabels() {
    const { cell } = this;
    const tilted = cell >= CELL.tilted;
    this.scroller.classList.toggle("tilted", tilted);
    const every = Math.ceil(11 / cell); // labels that would overlap are left out until they are pointed at
    const place = (labels, edge) =>
      labels.forEach((label, i) => {
        label.style[edge] = `${(i + 0.5) * cell}px`;
        label.classList.toggle("left-out", i % every !== every >> 1);
      });
    place(this.rowLabels, "top");
    place(this.columnLabels, "left");
    const extents = this.columnLabels.map((label) =>
      label.classList.contains("upright") ? label.offsetHeight : label.offsetWidth * (tilted ? Math.SQRT1_2 : 1),
    );
    this.columnsHeight = Math.ceil(Math.max(56, Math.max(...extents) + (tilted ? 20 : 12)));
    const overhang = tilted
      ? this.columnLabels.map((label, i) => (i + 0.5) * cell + label.offsetWidth * Math.SQRT1_2 + 8)
      : [];
    this.scroller.style.paddingInlineEnd = `${Math.max(0, Math.max(0, ...overhang) - this.block.columns * cell)}px`;
    this.scroller.style.setProperty("--rows-width", `${this.rowsWidth}px`);
    this.scroller.style.setProperty("--columns-height", `${this.columnsHeight}px`);
  }

  /** The part of the cells that can be seen: {x, y, width, height}. */
  view() {
    const [fullWidth, fullHeight] = [this.block.columns * this.cell, this.block.rows * this.cell];
    const width = Math.max(1, Math.min(fullWidth, this.scroller.clientWidth - this.rowsWidth));
    const height = Math.max(1, Math.min(fullHeight, this.scroller.clientHeight - this.columnsHeight));
    const x = Math.min(this.scroller.scrollLeft, fullWidth - width);
    const y = Math.min(this.scroller.scrollTop, fullHeight - height);
    return { x, y, width, height };
  }

  /** Cells, mask, grid and numbers of the visible part; kept, so that moving the cursor costs little. */
  paint() {
    const { x, y, width, height } = this.view();
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.picture, this.canvas]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.toView = [ratio, 0, 0, ratio, -x * ratio, -y * ratio];
    const pen = this.picture.getContext("2d");
    pen.setTransform(...this.toView);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.pixels, 0, 0, this.block.columns * this.cell, this.block.rows * this.cell);
    if (this.kind === "decoder") paintMask(pen, this.block, this.cell, ratio);
    if (this.cell >= 10) paintGrid(pen, this.kind, this.block, this.cell, this.style.backgroundColor);
    if (this.cell >= CELL.numbered) paintNumbers(pen, this.state, this.cell, topOf(this.state));
    this.paintMarks();
  }

  /** Row and column of the cursor, and of the subword that is pinned in the sentence. */
  marks() {
    const { focus, kind } = this.state;
    const marks = this.cursor ? { ...this.cursor } : {};
    if (this.cursor || !focus) return marks;
    if (focus.side === KINDS[kind].rows) marks.row = focus.index;
    else if (focus.side === KINDS[kind].columns.side) marks.column = focus.index;
    return marks;
  }

  paintMarks() {
    const { row, column } = this.marks();
    const { rows, columns } = this.block;
    const { cell } = this;
    const pen = this.canvas.getContext("2d");
    pen.resetTransform();
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height); // masked cells are transparent but for their lines
    pen.drawImage(this.picture, 0, 0);
    pen.setTransform(...this.toView);
    const frame = (box, line) => paintFrame(pen, box, line, this.style);
    if (row !== undefined) frame([0, row * cell, columns * cell, cell], 1.5);
    if (column !== undefined) frame([column * cell, 0, cell, rows * cell], 1.5);
    if (this.cursor) frame([column * cell, row * cell, cell, cell], 3);
    for (const label of this.marked) label.classList.remove("marked");
    this.marked = [this.rowLabels[row], this.columnLabels[column]].filter(Boolean);
    for (const label of this.marked) label.classList.add("marked");
  }

  cellAt(event) {
    const box = this.cells.getBoundingClientRect();
    const limit = (value, count) => Math.max(0, Math.min(count - 1, Math.floor(value / this.cell)));
    return {
      row: limit(event.clientY - box.top, this.block.rows),
      column: limit(event.clientX - box.left, this.block.columns),
    };
  }

  /** Move the cursor, mark its row and column, say what stands there. */
  point(cursor) {
    this.cursor = cursor;
    this.paintMarks();
    this.readout.replaceChildren(...(cursor ? this.reading(cursor) : [HEAT_HINT]));
  }

  reading({ row, column }) {
    const { kind, layer, head } = this.state;
    const { rows, columns } = KINDS[kind];
    const looked = piece(columns.labels[column], columns.side);
    const [read, predicted] = [RECORD.input_labels, RECORD.output_labels].map((labels) =>
      piece(labels[row] ?? "", "target"),
    );
    const step = [`Step ${row + 1} (reads `, read, ", predicts ", predicted, ")"];
    const who = rows === "source" ? [piece(RECORD.source_labels[row], "source")] : step;
    if (isMasked(kind, row, column)) {
      return [...who, " must not look at ", looked, ": it lies in the future and is ", el("b", {}, "masked")];
    }
    const weight = blockOf(kind, layer).head(head)[row * this.block.columns + column];
    return [...who, " looks at ", looked, ": ", el("b", { class: "number" }, weight.toFixed(4))];
  }

  pin() {
    const pin = { side: KINDS[this.state.kind].rows, index: this.cursor.row };
    this.state.set({ pin: same(pin, this.state.pin) ? null : pin });
  }

  /** Scroll to the row or column of the subword that was pinned elsewhere. */
  showPinned() {
    if (this.scroller.matches(":hover")) return;
    const { row, column } = this.marks();
    const { width, height } = this.view();
    if (row !== undefined) this.scroller.scrollTop = (row + 0.5) * this.cell - height / 2;
    if (column !== undefined) this.scroller.scrollLeft = (column + 0.5) * this.cell - width / 2;
  }

  key(event) {
    const { rows, columns } = this.block;
    this.cursor ??= { row: 0, column: 0 };
    const { row, column } = this.cursor;
    const [dx, dy] = { Home: [-columns, 0], End: [columns, 0], ...ARROWS }[event.key] ?? [];
    if (event.key === "Enter" || event.key === " ") this.pin();
    else if (dx === undefined) return;
    else {
      const inside = (value, count) => Math.max(0, Math.min(count - 1, value));
      this.point({ row: inside(row + dy, rows), column: inside(column + dx, columns) });
      this.reveal();
    }
    event.preventDefault();
  }

  /** Scroll until the cursor can be seen. */
  reveal() {
    const { x, y, width, height } = this.view();
    const shift = (start, size, at) => Math.min(0, at - start) + Math.max(0, at + this.cell - start - size);
    this.scroller.scrollBy(
      shift(x, width, this.cursor.column * this.cell),
      shift(y, height, this.cursor.row * this.cell),
    );
  }

  /** Larger or smaller cells; what is in the middle stays there. */
  zoomBy(how) {
    const { x, y, width, height } = this.view();
    const [column, row] = [(x + width / 2) / this.cell, (y + height / 2) / this.cell];
    const factor = { in: 1.35, out: 1 / 1.35 }[how];
    this.zoom = factor ? Math.max(CELL.smallest, Math.min(CELL.largest, Math.round(this.cell * factor))) : "fit";
    this.layOut();
    this.scroller.scrollTo(column * this.cell - width / 2, row * this.cell - height / 2);
  }
}
