// Weights as pixels: a whole map with a pixel for each cell, and the layers of a heat map's picture.

const HATCH = 6; // CSS pixels between the lines

/** The pixels of a map, one for each cell; masked cells stay transparent. */
function paintPixels(canvas, kind, layer, head, top) {
  const block = blockOf(kind, layer);
  const colours = TABLES[theme()][kind];
  const image = new ImageData(block.columns, block.rows);
  block.head(head).forEach((weight, i) => {
    if (isMasked(kind, Math.floor(i / block.columns), i % block.columns)) return;
    const [r, g, b] = colours[shade(weight, top)];
    image.data.set([r, g, b, 255], 4 * i);
  });
  canvas.width = block.columns;
  canvas.height = block.rows;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** The weight that has the last colour of the scale. */
function topOf({ kind, layer, head, scale }) {
  if (scale === "full") return 1;
  const weights = blockOf(kind, layer).head(head);
  return weights.reduce((a, b) => Math.max(a, b), 1e-6);
}

/** Diagonal lines where the mask hides cells: not the colour of any weight. */
function paintMask(pen, { rows, columns }, cell, ratio) {
  pen.beginPath();
  for (let row = 0; row < rows; row++) pen.rect((row + 1) * cell, row * cell, (columns - row - 1) * cell, cell);
  pen.fillStyle = hatching(pen, ratio);
  pen.fill();
}

function hatching(pen, ratio) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = HATCH * ratio;
  const line = tile.getContext("2d");
  line.scale(ratio, ratio);
  line.strokeStyle = theme() === "dark" ? "#54555e" : "#b9b5ae";
  line.beginPath();
  for (const x of [-HATCH, 0, HATCH]) {
    line.moveTo(x, HATCH);
    line.lineTo(x + HATCH, 0);
  }
  line.stroke();
  const pattern = pen.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

/** Lines between the cells, but not across what the mask hides. */
function paintGrid(pen, kind, { rows, columns }, cell, colour) {
  const line = (x0, y0, x1, y1) => {
    pen.moveTo(x0 * cell, y0 * cell);
    pen.lineTo(x1 * cell, y1 * cell);
  };
  const masked = kind === "decoder";
  pen.beginPath();
  for (let row = 1; row < rows; row++) line(0, row, masked ? row + 1 : columns, row);
  for (let column = 1; column < columns; column++) line(column, masked ? column - 1 : 0, column, rows);
  pen.lineWidth = 1;
  pen.strokeStyle = colour;
  pen.stroke();
}

/** The weights in figures, where there is room for them and anything to say. */
function paintNumbers(pen, { kind, layer, head }, cell, top) {
  const block = blockOf(kind, layer);
  const colours = TABLES[theme()][kind];
  pen.font = `${Math.min(13, cell * 0.3)}px ${getComputedStyle(document.body).fontFamily}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  block.head(head).forEach((weight, i) => {
    if (weight < 0.005) return;
    const [row, column] = [Math.floor(i / block.columns), i % block.columns];
    pen.fillStyle = inkOn(colours[shade(weight, top)]);
    pen.fillText(weight.toFixed(2), (column + 0.5) * cell, (row + 0.5) * cell);
  });
}

/** A frame that stands out from any colour: dark in light, or light in dark. */
function paintFrame(pen, [x, y, width, height], line, { color, backgroundColor }) {
  for (const [colour, lineWidth] of Object.entries({ [backgroundColor]: line + 2, [color]: line })) {
    pen.strokeStyle = colour;
    pen.lineWidth = lineWidth;
    pen.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  }
}
