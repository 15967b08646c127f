"""The verb that makes sentence pairs of text in one language: augment."""

import random
import shlex
from dataclasses import replace
from itertools import compress, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.cli.options import AugmentConfig
from dragoman.cli.translate import LINES_AT_ONCE, describe, line_counter, load, naming, read_card, require_one
from dragoman.config import DragomanError
from dragoman.corpus_check.check import examine_text
from dragoman.corpus_check.issues import CLEANING, Flag
from dragoman.folder import model_key
from dragoman.inference.translator import Translator
from dragoman.runtime.console import NowAndThen, say
from dragoman.runtime.files import appearing, make_folder, refuse_to_overwrite, write_json
from dragoman.text.corpus import read_lines, read_pairs

BLANK = "<BLANK>"
"""What stands for a word that noise has removed."""
_NOISE, _REACH = 0.1, 3
_UNFIT = {Flag.EMPTY: "without a translation"} | {
    flag: words
    for flag, (_, words) in CLEANING.items()
    if flag in Flag.DUPLICATE | Flag.COPY | Flag.RATIO | Flag.CHARACTERS | Flag.LANGUAGE
}


def augment(config: AugmentConfig) -> int:
    """Translate text in one language, and write it with its translations as parallel text; returns the exit code."""
    translator = load(config, config.folder)
    require_one(translator, "source", "target")
    original, other = translator.direction.source, translator.direction.target
    source, target = (original, other) if config.forward else (other, original)
    card, rows = Path(f"{config.out}.json"), Path(f"{config.out}.all.tsv")
    files = [Path(f"{config.out}.{language}") for language in (source, target)]
    made_from = describe(config, config.text)
    before = read_card(card, made_from)
    chosen_by = {name: getattr(config, name) for name in ("forward", "noise", "tag", "keep")}
    chosen_by["scorer"] = model_key(Path(config.scorer)) if config.scorer else ""
    make_folder(card.parent)
    names = [path.name for path in (card, rows, *files)]
    refuse_to_overwrite(card.parent, names if before else (), names)
    if before.get("chosen_by") == chosen_by and all(file.exists() for file in files):
        say(f"{files[0]}, {files[1]}: already made of this text")
        return 0
    write_json(card, {"made_from": made_from})
    _translate(translator, replace(config, log_probs=False), rows)
    kept, left_out = _choose(config, rows, original, other)
    reasons = ", ".join(f"{count:,} {words}" for words, count in left_out.items() if count)
    if not kept.any():
        raise DragomanError(f"{', '.join(config.text)}: no translation is fit for training ({reasons})")
    pairs = (pair for pair, is_kept in zip(read_pairs([str(rows)], original, other), kept, strict=True) if is_kept)
    with appearing(*files) as opened:
        for pair in pairs:
            first, second = pair if config.forward else pair[::-1]
            first = _damaged(first) if config.noise else first
            opened[0].write(f"{config.tag} {first}\n".lstrip().encode())
            opened[1].write(f"{second}\n".encode())
    found = {"source": source, "target": target, "lines": len(kept), "pairs": int(kept.sum()), "left_out": left_out}
    write_json(card, {"made_from": made_from, "chosen_by": chosen_by, **found})
    say(f"{files[0]}, {files[1]}: {found['pairs']:,} pairs; left out: {reasons or 'none'}")
    say(f"next: train from {source} to {target} with --train YOUR_PAIRS {shlex.quote(config.out)}")
    return 0


def _choose(config: AugmentConfig, rows: Path, original: str, other: str) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which rows are fit for training, and how many are not, by reason."""
    examined = examine_text([str(rows)], original, other, report=NowAndThen(say))
    kept, left_out = np.ones(examined.pairs, np.bool_), dict[str, int]()
    for flag, words in _UNFIT.items():
        unfit = kept & (examined.flags & np.uint16(flag) != 0)
        kept, left_out[words] = kept & ~unfit, int(unfit.sum())
    if config.scorer and kept.any():
        scorer = load(replace(config, source=other, target=original, ensemble=[]), config.scorer)
        say(f"scoring {kept.sum():,} pairs with {config.scorer}")
        pairs = zip(read_pairs([str(rows)], original, other), kept, strict=True)
        back = ((translation, line) for (line, translation), fit in pairs if fit)
        scores, add = list[float](), line_counter(NowAndThen(say), 0)
        while chunk := list(islice(back, LINES_AT_ONCE)):
            fitting = scorer.fits(chunk)
            found = (one.log_prob / one.num_tokens for one in scorer.score(list(compress(chunk, fitting))))
            scores += [next(found) if fits else np.nan for fits in fitting]
            add(len(chunk))
        likely = np.array(scores) >= np.nanquantile(scores, 1 - config.keep)
        left_out["too long to score"] = int(np.isnan(scores).sum())
        left_out["unlikely"] = int((~likely).sum()) - left_out["too long to score"]
        kept[kept] = likely
    return kept, left_out


def _damaged(text: str) -> str:
    """A text with a tenth of its words left out, a tenth blanked, and the others up to three places away."""
    choose = random.Random(text)
    words = [BLANK if choose.random() < _NOISE else word for word in text.split() if choose.random() >= _NOISE]
    places = [place + choose.uniform(0, _REACH + 1) for place in range(len(words))]
    return " ".join(word for _, word in sorted(zip(places, words, strict=True))) or BLANK


def _translate(translator: Translator, config: AugmentConfig, rows: Path) -> None:
    """Append rows, a line and one of its n best translations each, for all lines that have none yet."""
    with rows.open("a+b") as file:
        file.seek(0)
        whole = [len(row) for row in file if row.endswith(b"\n")]
        done = len(whole) // config.n_best
        file.truncate(sum(whole[: done * config.n_best]))
        if done:
            say(f"resuming after {done:,} lines")
        every = (line.replace("\t", " ") for text in config.text for line in read_lines(Path(text)))
        lines, report = islice(every, done, None), NowAndThen(say)
        while chunk := list(islice(lines, LINES_AT_ONCE)):
            with naming(", ".join(config.text)):
                found = translator.translate(chunk, config, line_counter(report, done), done + 1)
            for line, translation in zip(chunk, found, strict=True):
                texts = ["" if one.lost else one.text for one in translation.candidates]
                texts += [""] * (config.n_best - len(texts))
                file.write("".join(f"{line}\t{text}\n" for text in texts).encode())
            file.flush()
            done += len(chunk)
