// Building blocks of the page: elements, numbers, keys.

/** A new element. Words go in as text nodes only, so nothing in a sentence can become markup. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A new element of a drawing. */
function svg(tag, attributes = {}) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const byId = (id) => document.getElementById(id);

const MINUS = "\u2212";

/** "−6.46": what JSON could not hold (NaN, infinity) is a dash. */
function fixed(value, digits) {
  if (value === null) return "–";
  const text = Math.abs(value).toFixed(digits);
  return (value < 0 && Number(text) !== 0 ? MINUS : "") + text;
}

/** "95.1%", "0.04%": as many digits as tell small probabilities apart. */
function percent(probability) {
  if (probability === null) return "–";
  const value = 100 * probability;
  if (value > 0 && value < 0.01) return "<0.01%";
  return `${value.toFixed(value < 1 ? 2 : 1)}%`;
}

const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/**
 * Arrow keys move the focus to the nearest item in that direction, so the whole group is one stop of the Tab key.
 * Geometry decides, not order: lines may wrap and may run from right to left.
 */
function arrowKeys(container, selector) {
  const items = () => [...container.querySelectorAll(selector)];
  const visit = (item) => {
    for (const other of items()) other.tabIndex = other === item ? 0 : -1;
  };
  visit(items()[0]);
  container.addEventListener("focusin", (event) => {
    const item = event.target.closest(selector);
    if (item) visit(item);
  });
  container.addEventListener("keydown", (event) => {
    const from = event.target.closest(selector);
    const direction = ARROWS[event.key];
    if (!from || !direction) return;
    event.preventDefault();
    nearest(from, items(), direction)?.focus();
  });
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The item whose centre is nearest in that direction; steps aside count four times. */
function nearest(from, items, [dx, dy]) {
  const centre = (item) => {
    const box = item.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [x0, y0] = centre(from);
  let best = null;
  let bestCost = Infinity;
  for (const item of items) {
    const [x, y] = centre(item);
    const ahead = (x - x0) * dx + (y - y0) * dy;
    const aside = Math.abs((x - x0) * dy) + Math.abs((y - y0) * dx);
    const cost = ahead + 4 * aside;
    if (ahead > 1 && cost < bestCost) [best, bestCost] = [item, cost];
  }
  return best;
}

/** What has to be laid out by hand, because positions on the page go into it. */
const LAYOUTS = [];

/** Call `listener` soon and whenever the element's width changes; its height may change by what the listener does. */
function onWidth(element, listener) {
  let width = null;
  LAYOUTS.push(listener);
  new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width === width) return;
    width = contentRect.width;
    listener();
  }).observe(element);
}

/** Scroll a box, but not the page, until an item is in its middle; not while the reader points into the box. */
function bringToMiddle(box, item) {
  if (!item || box.matches(":hover")) return;
  const [outer, inner] = [box.getBoundingClientRect(), item.getBoundingClientRect()];
  box.scrollBy(
    inner.left + inner.width / 2 - outer.left - outer.width / 2,
    inner.top + inner.height / 2 - outer.top - outer.height / 2,
  );
}

/** What the parts of the page agree on; `set` tells those who asked for what changed. */
class State {
  constructor(values) {
    Object.assign(this, values);
    this.listeners = [];
  }

  /** Call `listener` now and whenever one of these changes. */
  on(names, listener) {
    this.listeners.push([names, listener]);
    listener();
  }

  set(changes) {
    const changed = Object.keys(changes).filter((name) => this[name] !== changes[name]);
    Object.assign(this, changes);
    for (const [names, listener] of this.listeners) {
      if (changed.some((name) => names.includes(name))) listener();
    }
  }

  /** The subword that is looked at, {side, index}: pointed at, or else pinned; null if none. */
  get focus() {
    return this.hover ?? this.pin;
  }
}

/** Whether two subwords are the same. */
const same = (a, b) => Boolean(a && b && a.side === b.side && a.index === b.index);

/**
 * Pointing, tapping and focusing for everything inside `container` that stands for a subword: `find` names the
 * subword of an element. Pointing lights it, a click pins it, another click lets it go.
 */
function followPointer(container, state, find) {
  const light = (event) => {
    const hover = find(event.target);
    if (hover && !same(hover, state.hover)) state.set({ hover });
  };
  const leave = ({ relatedTarget }) => {
    if (!container.contains(relatedTarget) || !find(relatedTarget)) state.set({ hover: null });
  };
  container.addEventListener("pointerover", light);
  container.addEventListener("pointerout", leave);
  container.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && light(event));
  container.addEventListener("focusout", leave);
  container.addEventListener("click", (event) => {
    const pin = find(event.target);
    if (pin) state.set({ pin: same(pin, state.pin) ? null : pin });
  });
}
