"""Drawings of the tutorial that show no numbers, as small SVG files: `python docs_build/drawings.py`."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from symbols import ROOT

FOLDER = ROOT / "docs" / "figures"
INK, GREY = "#222222", "#888888"
ATTENTION, FEED_FORWARD, NORM, EDGE = "#f7dcc0", "#cfe3f1", "#eeeeee", "#e3efe0"  # as in dragoman/figures/parts.py
SHADES = ("#5aa9d6", "#ffffff", "#e8a33d", "#b9d7ea", "#f6dfb9")
WIDTH = 480  # little more than a phone's, so that letters stay legible there
LEFT, RIGHT = 76, 404  # edges of a layer
COLUMNS = (136, 240, 344)  # of its three positions
Place = tuple[float, float]


class Drawing:
    """An SVG file of a given height; y counts downwards."""

    def __init__(self, title: str, height: float) -> None:
        self.title, self.height, self.vectors = title, height, 0
        self.parts = [f'<rect width="{WIDTH}" height="{height}" fill="white"/>']

    def text(self, x: float, y: float, text: str, size: int = 13, colour: str = INK, look: str = "") -> None:
        """Write a line whose middle is x, y."""
        place = f'x="{x}" y="{y + size * 0.35:.1f}" font-size="{size}" fill="{colour}"'
        self.parts.append(f'<text {place} text-anchor="middle" {look}>{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, colour: str, words: str) -> None:
        """Draw a box around x, y."""
        place = f'x="{x - width / 2}" y="{y - height / 2}" width="{width}" height="{height}" rx="5"'
        self.parts.append(f'<rect {place} fill="{colour}" stroke="{GREY}"/>')
        self.text(x, y, words)

    def line(self, *corners: Place, colour: str = INK, arrow: bool = True, width: float = 1.2) -> None:
        """Draw a line through the corners."""
        points = " ".join(f"{x},{y}" for x, y in corners)
        end = ' marker-end="url(#arrow)"' if arrow else ""
        look = f'fill="none" stroke="{colour}" stroke-width="{width}"'
        self.parts.append(f'<polyline points="{points}" {look}{end}/>')

    def vector(self, x: float, y: float) -> None:
        """Draw a vector, as four cells around x, y; their colours only say that each vector is another one."""
        self.vectors += 1
        for number in range(4):
            shade = SHADES[(7 * self.vectors + (self.vectors % 3 + 1) * number) % len(SHADES)]
            place = f'x="{x - 24 + 12 * number}" y="{y - 6}" width="12" height="12"'
            self.parts.append(f'<rect {place} fill="{shade}" stroke="{GREY}"/>')

    def save(self, name: str) -> None:
        """Write docs/figures/NAME.svg."""
        arrow = '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        head = f'<defs>{arrow}<path d="M0,0.5L8,4L0,7.5z" fill="{INK}"/></marker></defs>'
        size = f'viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}"'
        font = 'font-family="DejaVu Sans, Verdana, Arial, sans-serif" role="img"'
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>', f"<title>{escape(self.title)}</title>"]
        content = "\n".join([*lines, head, *self.parts, "</svg>\n"])
        (FOLDER / f"{name}.svg").write_text(content, encoding="utf-8")


def black_box() -> None:
    """The translator as a black box; below, its two stacks."""
    draw = Drawing("The black box, and the two stacks inside it", 440)
    draw.text(90, 40, "Take the bag.")
    draw.line((145, 40), (176, 40))
    draw.box(240, 40, 126, 44, "#dddddd", "Transformer")
    draw.line((304, 40), (335, 40))
    draw.text(394, 40, "Prenez le sac.")
    for x in (24, 456):
        draw.line((240 + (-63 if x < 240 else 63), 62), (x, 92), colour=GREY, arrow=False)
    look = f'fill="none" stroke="{GREY}" stroke-dasharray="5 4"'
    draw.parts.append(f'<rect x="14" y="92" width="452" height="336" rx="8" {look}/>')
    layers = (150, 190, 270, 310)
    for x, stack, colour in ((120, "encoder", EDGE), (350, "decoder", "#f7ead8")):
        for y, number in zip(layers, (6, 5, 2, 1), strict=True):
            draw.box(x, y, 130, 28, colour, f"{stack} layer {number}")
        draw.text(x, 231, "⋮")
        for below, above in ((310, 270), (270, 243), (219, 190), (190, 150)):
            tip = above + 14 if above in layers else above
            draw.line((x, below - 14 if below in layers else below), (x, tip))
        draw.line((x, 352), (x, 324))
        draw.text(x, 362, "embedding + position", 12)
        draw.line((x, 388), (x, 372))
    draw.text(120, 400, "Take  the  bag  .  </s>")
    draw.text(350, 400, "<s>  Prenez  le")
    draw.line((120, 136), (120, 116), (226, 116), (226, 310), (285, 310))
    for y in layers[:-1]:
        draw.line((226, y), (285, y))
    draw.text(173, 106, "memory", 12)
    draw.line((350, 136), (350, 122))
    draw.text(350, 110, "sac")
    draw.line((366, 110), (442, 110), (442, 400), (402, 400), colour=GREY)
    draw.text(394, 418, "sac is read next", 11, GREY)
    draw.save("black-box")


def layer(name: str, title: str, words: Sequence[str], results: Sequence[str], decoder: bool) -> None:
    """One layer with three positions, from the bottom up: who reads whom, and what each position does alone."""
    height = 478 if decoder else 350
    draw = Drawing(title, height)
    y = height - 46.0
    for x, word in zip(COLUMNS, words, strict=True):
        draw.text(x, height - 20, word, look='font-weight="bold"')
        draw.vector(x, y)
    attentions = ("masked self-attention", "cross-attention") if decoder else ("self-attention",)
    for kind in (*attentions, "feed-forward"):
        y = _sublayer(draw, y, kind)
    for x, result in zip(COLUMNS, results, strict=True):
        draw.text(x, y - 20, result, 12, GREY)
    draw.save(name)


def _sublayer(draw: Drawing, y: float, kind: str) -> float:
    """Draw a sub-layer and its connection above the vectors at y; returns the height of the next vectors."""
    middle = (LEFT + RIGHT) / 2
    if kind == "feed-forward":
        for x in COLUMNS:
            draw.line((x, y - 8), (x, y - 22))
            draw.box(x, y - 40, 96, 36, FEED_FORWARD, "feed-forward")
            draw.line((x, y - 58), (x, y - 70))
        top = y - 70
    else:
        spread = 44 if kind != "cross-attention" else 16
        for i, start in enumerate(COLUMNS):
            for j, end in enumerate(COLUMNS):
                if (kind == "self-attention") or (kind.startswith("masked") and i <= j) or i == j:
                    draw.line((start, y - 8), (end, y - 8 - spread), width=0.9)
        draw.box(middle, y - 26 - spread, RIGHT - LEFT, 36, ATTENTION, kind)
        if kind == "cross-attention":
            draw.text(446, y + 26, "memory", 12)
            for row in range(3):
                draw.vector(446, y + 8 - 16 * row)
            draw.line((446, y - 34), (446, y - 26 - spread), (RIGHT + 2, y - 26 - spread))
        for x in COLUMNS:
            draw.line((x, y - 44 - spread), (x, y - 56 - spread))
        top = y - 56 - spread
    draw.box(middle, top - 13, RIGHT - LEFT, 26, NORM, "add, then norm")
    draw.line((COLUMNS[0] - 26, y), (40, y), (40, top - 13), (LEFT - 1, top - 13), colour=GREY)
    for x in COLUMNS:
        draw.line((x, top - 26), (x, top - 40))
        draw.vector(x, top - 48)
    return top - 48


def scaled_dot_product() -> None:
    """The left half of figure 2."""
    draw = Drawing("Scaled dot-product attention, the left half of the paper's figure 2", 440)
    for x, letter in ((110, "Q"), (210, "K"), (330, "V")):
        draw.text(x, 424, letter, 15, look='font-weight="bold"')
    for x, shape in ((110, "(T, K)"), (210, "(S, K)"), (330, "(S, K)")):
        draw.text(x, 402, shape, 11, GREY)
    steps = (
        (350, "compare: Q times K transposed", "scores (T, S)", EDGE),
        (282, "scale: divide by √K", "", NORM),
        (214, "mask: −∞ for what is hidden", "", NORM),
        (146, "softmax of each row", "weights (T, S)", NORM),
    )
    for x in (110, 210):
        draw.line((x, 392), (x, 370))
    for y, words, result, colour in steps:
        draw.box(160, y, 236, 36, colour, words)
        draw.line((160, y - 18), (160, y - 50 if y > 146 else 96))
        if result:
            draw.text(216, y - 33, result, 11, GREY)
    draw.line((330, 392), (330, 96))
    draw.box(245, 76, 250, 36, EDGE, "mix: weights times V")
    draw.line((245, 58), (245, 36))
    draw.text(245, 22, "output (T, K)")
    draw.save("scaled-dot-product")


def main() -> None:
    """Write every drawing."""
    black_box()
    layer("encoder-layer", "One encoder layer", ("Take", "the", "bag"), ("", "", ""), decoder=False)
    layer("decoder-layer", "One decoder layer", ("<s>", "Prenez", "le"), ("→ Prenez", "→ le", "→ sac"), decoder=True)
    scaled_dot_product()


if __name__ == "__main__":
    main()
