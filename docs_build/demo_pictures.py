"""Draw what a trained model does, for the tutorial: `python docs_build/demo_pictures.py demo/en-fr` after `make demo`.

Another training run makes another model: see whether what the tutorial says of the pictures is still true.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from refresh import make_small
from symbols import ROOT

from dragoman.config import BOS, EOS
from dragoman.figures import style
from dragoman.figures.gallery import save_figure
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.inspection.record import readable

QUESTION = "Do you want to eat with us tonight, {}?"
LOOKS = (
    (QUESTION.format("Thomas"), "you", 1),
    (QUESTION.format("sir"), "you", 1),
    ("Take the bag, it is on the table.", "it", 0),
    ("Take the dress, it is on the table.", "it", 0),
)
"""A sentence, the pronoun that looks, and the layer of the encoder, from 0."""
MODEL = "The model of make demo"
SENTENCE, SO_FAR = "I am looking for a black hat.", "Je cherche un"


@style.styled()
def where_pronouns_look(translator: Translator) -> Figure:
    """Where a pronoun looks: one row of the attention map of each head of one encoder layer."""
    figure = style.new_figure(style.FULL_WIDTH, 6.4)
    for ax, (sentence, pronoun, layer) in zip(figure.subplots(len(LOOKS), 1), LOOKS, strict=True):
        inspection = inspect(translator, sentence)
        source = readable(inspection.source_pieces)
        rows = inspection.maps[f"encoder.{layer}.self_attention"][:, source.index(pronoun)]  # (H, S)
        texts = [[text.replace("0.00", "") for text in row] for row in style.numbers(rows)]
        style.cells(ax, rows, texts, style.WEIGHTS, (0, 1))
        style.write_ticks(ax, source, [f"head {number}" for number in range(1, len(rows) + 1)])
        ax.set_title(f"“{pronoun}”, encoder layer {layer + 1} → {inspection.target}")
    figure.suptitle(MODEL, x=0.01, ha="left", size=style.TEXT)
    return figure


@style.styled()
def next_word(translator: Translator) -> Figure:
    """From logits to a word: the largest logits after the words so far, and what the softmax makes of them."""
    model, vocabulary = translator.torch_engine.model, translator.vocabulary
    source = torch.tensor([[*vocabulary.source.encode([SENTENCE])[0], EOS]])
    target = torch.tensor([[BOS, *vocabulary.target.encode([SO_FAR])[0]]])
    with torch.no_grad():
        logits = model(source, target)[0, -1]  # (V,)
    best = logits.topk(8).indices
    pieces = readable(vocabulary.target.pieces(best.tolist()))
    figure = style.new_figure(style.FULL_WIDTH, 2.7)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, values, digits in zip(axes, (logits, logits.softmax(dim=-1)), (1, 3), strict=True):
        bars = ax.barh(range(len(best)), values[best].tolist(), color=style.BLUE)
        ax.bar_label(bars, [f"{value:.{digits}f}" for value in values[best].tolist()], padding=3, size=style.SMALL)
        ax.set(xmargin=0.18)
    axes[0].set(title=f"the 8 largest of {len(logits):,} logits", xlabel="logit")
    axes[1].set(title="softmax: probabilities", xlabel="probability", xlim=(0, 1.18), xticks=(0, 0.5, 1))
    axes[0].set_yticks(range(len(best)), pieces)
    axes[0].invert_yaxis()
    figure.suptitle(f"{MODEL}: {SENTENCE} → {SO_FAR} …", x=0.01, ha="left", size=style.TEXT)
    return figure


def main(folder: str) -> None:
    """Write the pictures into docs/figures."""
    translator = Translator.load(Path(folder))
    for name, draw in {"pronouns": where_pronouns_look, "next-word": next_word}.items():
        path = ROOT / "docs" / "figures" / f"{name}.svg"
        save_figure(draw(translator), path, title=name, caption=(draw.__doc__ or ""))
        make_small(path)


if __name__ == "__main__":
    main(sys.argv[1])
