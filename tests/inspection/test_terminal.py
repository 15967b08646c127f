import re
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from dragoman.inspection.record import Candidate, Inspection, Prediction, visible
from dragoman.inspection.terminal import render_text

from .records import an_inspection

ESCAPE = re.compile(r"\x1b\[[\d;]*m")
STEP = re.compile(r" *(\d+) +(\S+) +(\d[\d.e-]*) ([━╸]*) +(\d+)((?: +\S+ +\d[\d.e-]*)*)$")
LEFT_TO_RIGHT, JOINERS = "\u200e", "\u200c\u200d"
HOSTILE = [
    *("\x1b[31mred\x1b[0m", "a\tb", "\r\nx", "\u202eevil", "\u2066iso", "\u2028", "\u200d", "\ufe0f", "[bold]x[/bold]"),
    *(
        "动物没有穿过街道",
        "カタカナ",
        "한국어",
        "الحيوان",
        "שלום",
        "हिन्दी",
        "ภาษาไทย",
        "e\u0301" * 9,
        "\u0301",
        "👩‍💻❤️🇫🇷",
    ),
    *("�", "<0xE2>", "</s>", "▁", "x" * 300, "字" * 150, ":smile:", "\U000e0041", "ﷺ", "\u3164"),
]


def hostile_record(number: int) -> Inspection:
    """A record whose every text is one that could break a line, a column or the terminal."""
    chance = np.random.default_rng(number)
    texts = [HOSTILE[i] for i in chance.integers(len(HOSTILE), size=5)]
    pieces = [mark + HOSTILE[i] for i, mark in zip(chance.integers(len(HOSTILE), size=9), "▁▁ " * 3, strict=True)]
    outputs = pieces[: chance.integers(9)]
    predictions = [
        Prediction(
            piece,
            float(chance.random() ** 9),
            int(10 ** (6 * chance.random())),
            [(pieces[i], float(chance.random() ** 9)) for i in chance.integers(len(pieces), size=5)],
        )
        for piece in [*outputs, "</s>"]
    ]
    changes = {"languages": (texts[0], texts[1]), "source": texts[2], "target": texts[3], "chosen": -1}
    candidates = [Candidate(texts[4], ["</s>"], -1e3, -1e2)]
    return an_inspection(pieces, outputs, predictions=predictions, candidates=candidates, **changes)


@pytest.mark.parametrize("width", [10, 40, 80, 160])
@pytest.mark.parametrize("number", range(6))
def test_no_line_is_wider_than_the_width_and_nothing_in_it_steers_the_terminal(number: int, width: int) -> None:
    record = hostile_record(number)
    text = render_text(record, width)
    assert all(cell_len(line) <= width for line in text.split("\n"))
    assert {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")} <= {"\n", LEFT_TO_RIGHT, *JOINERS}
    assert not any(line.endswith(" ") for line in text.split("\n"))
    # Colour adds escape codes and nothing else: bold or three colours, never a background, which could hide letters.
    coloured = render_text(record, width, color=True)
    lines = [line.rstrip(" ") for line in ESCAPE.sub("", coloured).split("\n")]
    assert "\n".join(lines) == text
    codes = {code for found in ESCAPE.findall(coloured) for code in found[2:-1].split(";")}
    assert codes <= {"0", "1", "38", "5", "32", "166", "243"}


@pytest.mark.parametrize("width", [24, 80])
@pytest.mark.parametrize("text", HOSTILE)
def test_the_sentences_are_printed_whole_at_any_width(text: str, width: int) -> None:
    record = replace(an_inspection(["▁a"], ["▁b"]), source=text, target=f"one {text}")
    above = render_text(record, width).split("    log-probability")[0]
    shown = [line.removeprefix(("en", "fr")[line.startswith("fr")]) for line in above.split("\n")]
    expected = visible(text) + "one" + visible(text)
    assert "".join("".join(shown).split()) == "".join(expected.split())


PREDICTIONS = [
    Prediction("▁Bon", 0.93449, 1, [("▁Bon", 0.93449), ("▁Le", 0.0412), ("jour", 0.00049), ("!", 3e-11)]),
    Prediction("jour", 0.1, 3, [("▁de", 0.5), ("▁du", 0.25), ("jour", 0.1), ("▁le", 0.01)]),
    Prediction("</s>", 1.4e-08, 12345, [("▁le", 1.0), ("!", 0.0)]),
]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_the_numbers_are_those_of_the_record(width: int) -> None:
    text = render_text(an_inspection(["▁Hello"], ["▁Bon", "jour"], predictions=PREDICTIONS), width)
    assert "log-probability -1.2346, score -0.6543" in text
    assert re.findall(r"([▸ ]) (\d)  (-\d\.\d{4})  (\w+)$", text, re.M) == [
        ("▸", "1", "-0.5000", "Bonjour"),
        (" ", "2", "-1.5000", "two"),
    ]
    rows = [found.groups() for line in text.split("\n") if (found := STEP.match(line))]
    assert [row[:3] for row in rows] == [("1", "Bon", "0.934"), ("2", "·jour", "0.100"), ("3", "</s>", "1e-08")]
    assert [int(row[4]) for row in rows] == [1, 3, 12345]
    runners_up = [row[5].split() for row in rows]
    assert runners_up[0][:4] == ["Le", "0.041", "·jour", "5e-04"]
    assert runners_up[1][:4] == ["de", "0.500", "du", "0.250"]
    assert runners_up[2] == ["le", "1.000", "!", "0.000"]
    if width == 200:  # room for all of them
        assert runners_up[0][4:] == ["!", "3e-11"]
        assert runners_up[1][4:] == ["le", "0.010"]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_bars_are_as_long_as_the_probabilities(width: int) -> None:
    values = [0.0, 0.2, 0.4999, 0.75, 1.0]
    steps = [Prediction("▁w", value, 1, [("▁w", value)]) for value in values]
    text = render_text(an_inspection(["▁a"], ["▁w"] * 4, predictions=steps), width)
    (header,) = (line for line in text.split("\n") if line.endswith("rank"))
    rows = [found for line in text.split("\n") if (found := STEP.match(line))]
    assert {row.start(3) for row in rows} == {header.index("probability")}
    assert {row.end(5) for row in rows} == {len(header)}
    bars = [row[4] for row in rows]
    lengths = [len(bar) - 0.5 * bar.count("╸") for bar in bars]
    assert lengths[-1] == max(5, min(12, width // 10))
    assert lengths == [pytest.approx(value * lengths[-1], abs=0.2501) for value in values]


def read_grid(text: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Column labels, row labels and cells (T, S), put together from the groups of columns."""
    groups = [group.split("\n") for group in re.split(r"below\s0\.05\n", text)[1].split("\n\n")]
    columns = [label for group in groups for label in group[0].split()]
    labels = [[" ".join(line.split()[:2]) for line in group[1:]] for group in groups]
    assert all(some == labels[0] for some in labels), "every group repeats the row labels"
    rows = [[cell for group in groups for cell in group[1 + t].split()[2:]] for t in range(len(labels[0]))]
    return columns, labels[0], rows


@pytest.mark.parametrize(("sources", "targets", "heads"), [(1, 1, 1), (9, 7, 4), (40, 25, 3)])
@pytest.mark.parametrize("width", [24, 80, 190])
def test_the_grid_has_the_mean_of_the_heads_in_tenths(sources: int, targets: int, heads: int, width: int) -> None:
    pieces = [f"▁{'s' * (1 + i % 7)}" for i in range(sources)]
    record = an_inspection(pieces, ["▁t"] * targets, heads=heads, seed=sources)
    columns, labels, rows = read_grid(render_text(record, width))
    assert columns == [*(piece[1:] for piece in pieces), "</s>"]
    assert labels == [f"{t} {label}" for t, label in enumerate([*["t"] * targets, "</s>"], start=1)]
    mean = record.maps["decoder.0.cross_attention"].astype(float).sum(axis=0) / heads
    shown = np.array([[0 if cell == "·" else int(cell[-1]) for cell in row] for row in rows])
    assert shown.shape == mean.shape
    assert np.abs(shown - np.minimum(10 * mean, 9.0)).max() <= 0.5 + 1e-6
    shades = {(int(cell[1]), "░▒▓█".index(cell[0])) for row in rows for cell in row if cell != "·"}
    assert [shade for _, shade in sorted(shades)] == sorted(shade for _, shade in shades), "more is darker"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_columns_stand_one_below_the_other_in_any_script(width: int) -> None:
    pieces = [
        "▁动物",
        "街道",
        "▁カタカナ",
        "e\u0301te\u0301",
        "▁한국어",
        "▁word",
        "▁الحيوان",
        "字" * 40,
        "▁" + "x" * 40,
    ]
    text = render_text(an_inspection(pieces, pieces), width)
    steps = text.split("Step by step")[1].split("Alignment")[0]
    starts = {cell_len(line[: found.start()]) for line in steps.split("\n") if (found := re.search(r"0\.500", line))}
    assert len(starts) == 1
    grid = text.split("· is below 0.05\n")[1].split("\n\n")
    for group in grid:
        header, *rows = group.split("\n")
        edges = {cell_len(header[: found.end()]) for found in re.finditer(r"\S+", header)}
        for row in rows:
            cells = list(re.finditer(r"\S+", row))[2:]
            assert {cell_len(row[: found.end()]) for found in cells} == edges


def test_text_from_right_to_left_cannot_turn_the_columns_around() -> None:
    text = render_text(an_inspection(["▁الحيوان", "▁שלום"], ["▁مرحبا", "▁שלום", "▁latin"]), 80)
    for line in text.split("Step by step")[1].split("\n"):
        for found in re.finditer(r"[\u0590-\u06ff…]+", line):
            after = line[found.end() :]
            assert after.startswith(LEFT_TO_RIGHT), line
    assert LEFT_TO_RIGHT not in render_text(an_inspection(["▁Hello"], ["▁Bonjour"]), 80)


def test_the_alignment_in_words_and_in_pharaohs_format() -> None:
    coffee = [f"<0x{byte:02X}>" for byte in "☕".encode()]
    record = an_inspection(["▁hot", "▁", *coffee, "▁ple", "ase"], ["▁du", "▁", *coffee, "▁cha", "ud"])
    words = (["hot", "☕", "please"], ["du", "☕", "chaud"])
    record = replace(record, words=words, alignment=[(0, 2), (1, 1), (2, 0)])
    text = render_text(record, 80)
    block = text.split("Alignment")[1].split("\n\n")[0]
    pairs = re.findall(r"(\S+) ↔ (\S+)", block)
    assert pairs == [("hot", "chaud"), ("☕", "☕"), ("please", "du")]
    assert "  Pharaoh  0-2 1-1 2-0\n" in text
    assert "no links" in render_text(replace(record, alignment=[]), 80)


def test_it_says_when_the_search_did_not_find_the_translation() -> None:
    record = an_inspection(["▁Hello"], ["▁Bonjour"])
    assert "▸ 2" in render_text(replace(record, chosen=1), 80)
    unfound = render_text(replace(record, chosen=-1), 80)
    assert "▸" not in unfound
    assert "The translation above is none of the best that the search found." in unfound
    assert "none of the best" not in render_text(record, 80)
