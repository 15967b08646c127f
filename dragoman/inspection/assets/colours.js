// Colours of weights: one hue for each kind of attention, from nothing to all. Brightness alone gives the order, so
// any kind of colour vision can read it; the hues are those of Okabe and Ito.

const RAMPS = {
  light: {
    cross: ["#f5f7f9", "#b5d5ea", "#0072b2", "#00365a"],
    decoder: ["#f9f6f3", "#f4c6a6", "#c95700", "#662800"],
    encoder: ["#f4f8f6", "#abdccb", "#00865f", "#004030"],
  },
  dark: {
    cross: ["#232429", "#134a70", "#45a7e2", "#e6f4ff"],
    decoder: ["#232429", "#6e3409", "#ee8738", "#fff1e4"],
    encoder: ["#232429", "#0c5842", "#2fc598", "#e0fff5"],
  },
};

const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

/** 256 colours [red, green, blue] between the stops of a ramp. */
function table(stops) {
  const colours = stops.map(channels);
  return Array.from({ length: 256 }, (_, i) => {
    const position = (i / 255) * (stops.length - 1);
    const left = Math.min(Math.floor(position), stops.length - 2);
    return colours[left].map((value, c) => Math.round(value + (position - left) * (colours[left + 1][c] - value)));
  });
}

const TABLES = Object.fromEntries(
  Object.entries(RAMPS).map(([theme, kinds]) => [
    theme,
    Object.fromEntries(Object.entries(kinds).map(([kind, stops]) => [kind, table(stops)])),
  ]),
);

/** Brightness by the square root of the weight: in long sentences most weights are small. */
const shade = (weight, top = 1) => Math.round(255 * Math.sqrt(Math.min(1, weight / top)));

const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

/** Of lines and bars of a kind: strong enough for any ground. */
const strong = (kind) => css(TABLES[theme()][kind][theme() === "dark" ? 160 : 150]);

/** Relative luminance, as WCAG defines it. */
function luminance(colour) {
  const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Black or white, whichever is easier to read on a colour. */
const inkOn = (colour) => (luminance(colour) > 0.18 ? "#000" : "#fff");

const isPrinting = () => document.documentElement.classList.contains("printing");

/** Whether the page is dark now: by its own switch, or else by the system's. */
function theme() {
  return (
    document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")
  );
}
