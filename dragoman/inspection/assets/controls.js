// What can be chosen on a page, its colours, and how it prints.

/** A menu of numbers that is kept in step with one property of the state. */
function menu(select, state, name, options) {
  select.append(...options.map(([value, text]) => el("option", { value }, text)));
  select.addEventListener("change", () => state.set({ [name]: Number(select.value) }));
  state.on([name], () => (select.value = state[name]));
}

/** Buttons of which one is pressed. */
function choice(root, state, name) {
  const buttons = [...root.querySelectorAll("button")];
  for (const button of buttons) button.addEventListener("click", () => state.set({ [name]: button.value }));
  state.on([name], () => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.value === state[name]);
  });
}

function showControls(state) {
  const numbers = (count) => Array.from({ length: count }, (_, i) => [i, `${i + 1}`]);
  menu(byId("layer"), state, "layer", numbers(LAYERS));
  menu(byId("head-number"), state, "head", [[MEAN, "mean"], ...numbers(HEADS)]);
  choice(byId("kinds"), state, "kind");
  choice(byId("scales"), state, "scale");
  const root = document.documentElement;
  const restyle = (name) => {
    root.dataset.theme = name;
    state.set({ theme: theme() });
  };
  byId("theme").addEventListener("click", () => restyle(theme() === "dark" ? "light" : "dark"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.set({ theme: theme() }));
  addEventListener("keydown", (event) => event.key === "Escape" && state.set({ pin: null, hover: null }));
}

/** Inside an <iframe srcdoc>, "#beam" would be taken for a place in the page around it. */
function showSections() {
  byId("sections").addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    const heading = document.querySelector(`${link.getAttribute("href")} h2`);
    heading.scrollIntoView();
    heading.focus({ preventScroll: true });
  });
}

/** Shrinks the search tree to the width of its frame; one too large to be read is left out. */
function fitTree(tree) {
  const frame = tree.parentElement;
  frame.scrollLeft = 0;
  let zoom = 1; // borders and the least size of letters do not shrink with the rest: try until it fits
  for (; zoom > LEGIBLE && tree.offsetWidth * zoom > 0; zoom *= 0.95) {
    tree.style.zoom = zoom;
    if (frame.scrollWidth <= frame.clientWidth) break;
  }
  byId("beam").classList.toggle("tree-left-out", zoom <= LEGIBLE);
}

const LEGIBLE = 0.45; // of the size on the screen

/** Paper is white and does not scroll: while it prints, the page is light, and as wide as a sheet. */
function preparePrinting(state) {
  const root = document.documentElement;
  const tree = document.querySelector(".tree");
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("printing");
    state.set({ theme: "light" });
    if (tree) fitTree(tree);
    for (const layOut of LAYOUTS) layOut();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    root.classList.remove("printing");
    if (tree) {
      tree.style.zoom = "";
      byId("beam").classList.remove("tree-left-out");
    }
    state.set({ theme: theme() });
    for (const layOut of LAYOUTS) layOut();
  });
}
