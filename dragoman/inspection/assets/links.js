// Which words belong together: two lines of words with curves between them where there is room, else two columns.

class LinksView {
  constructor(root) {
    this.frame = root.querySelector(".links");
    this.curves = [];
    this.drawing = this.frame.querySelector("svg");
    this.readout = byId("links-readout");
    this.words = {
      source: this.fill("source", wordsOf(RECORD.source_pieces, RECORD.source_words)),
      target: this.fill("target", wordsOf(RECORD.outputs, RECORD.target_words)),
    };
    for (const [source, target] of RECORD.alignment) {
      this.words.source[source]?.classList.add("linked");
      this.words.target[target]?.classList.add("linked");
    }
    this.listen();
    this.mark(null);
    onWidth(root, () => this.layOut());
  }

  fill(side, words) {
    const list = this.frame.querySelector(`.words.${side}`);
    list.dir = getComputedStyle(byId(`${side}-text`)).direction;
    const items = words.map((word, i) => {
      const attributes = { type: "button", class: "word", "data-side": side, "data-index": i, tabindex: -1 };
      return el("button", attributes, piece(word, side));
    });
    list.append(...items);
    return items;
  }

  listen() {
    arrowKeys(this.frame, ".word");
    const read = (event) => {
      const word = event.target.closest(".word");
      this.mark(word && { side: word.dataset.side, index: Number(word.dataset.index) });
    };
    for (const name of ["pointerover", "focusin", "click"]) this.frame.addEventListener(name, read);
    for (const name of ["pointerleave", "focusout"]) this.frame.addEventListener(name, () => this.mark(null));
  }

  /** Lines if both fit, columns if not. */
  layOut() {
    this.frame.classList.remove("columns");
    const lists = [...this.frame.querySelectorAll(".words")];
    const fits = lists.every((list) => list.scrollWidth <= list.clientWidth + 1);
    this.frame.classList.toggle("columns", !fits);
    this.draw();
  }

  draw() {
    const columns = this.frame.classList.contains("columns");
    for (const side of ["width", "height"]) this.drawing.setAttribute(side, 0); // so that the words' own size counts
    const size = { width: this.frame.scrollWidth, height: this.frame.scrollHeight };
    for (const [name, value] of Object.entries(size)) this.drawing.setAttribute(name, value);
    const frame = this.frame.getBoundingClientRect();
    const [left, top] = [frame.left - this.frame.scrollLeft, frame.top - this.frame.scrollTop];
    this.curves = RECORD.alignment.map(([source, target]) => {
      const a = this.words.source[source].getBoundingClientRect();
      const b = this.words.target[target].getBoundingClientRect();
      const d = columns
        ? horizontal(a.right - left, a.top + a.height / 2 - top, b.left - left, b.top + b.height / 2 - top)
        : vertical(a.left + a.width / 2 - left, a.bottom - top, b.left + b.width / 2 - left, b.top - top);
      return svg("path", { d });
    });
    this.drawing.replaceChildren(...this.curves);
  }

  /** The linked words in a line: in a long sentence they may stand far apart. */
  reading(lit) {
    const side = (name) =>
      [...lit[name]].sort((a, b) => a - b).flatMap((i) => [this.words[name][i].firstChild.cloneNode(true), " "]);
    const [source, target] = [side("source"), side("target")];
    return [...(source.length ? source : ["nothing "]), "– ", ...(target.length ? target : ["nothing"])];
  }

  /** Light one word, its links and the words at their other ends. */
  mark(focus) {
    const lit = { source: new Set(), target: new Set() };
    if (focus) lit[focus.side].add(focus.index);
    RECORD.alignment.forEach(([source, target], i) => {
      const on = Boolean(focus) && (focus.side === "source" ? source : target) === focus.index;
      this.curves[i]?.classList.toggle("lit", on);
      if (on) lit.source.add(source) && lit.target.add(target);
    });
    for (const [side, words] of Object.entries(this.words)) {
      words.forEach((word, i) => word.classList.toggle("lit", lit[side].has(i)));
    }
    this.frame.classList.toggle("choosing", Boolean(focus));
    this.readout.replaceChildren(...(focus ? this.reading(lit) : [LINKS_HINT]));
  }
}

const LINKS_HINT = "Point at a word to see what it is linked to.";
const vertical = (x0, y0, x1, y1) => `M${x0},${y0} C${x0},${(y0 + y1) / 2} ${x1},${(y0 + y1) / 2} ${x1},${y1}`;
const horizontal = (x0, y0, x1, y1) => `M${x0},${y0} C${(x0 + x1) / 2},${y0} ${(x0 + x1) / 2},${y1} ${x1},${y1}`;
