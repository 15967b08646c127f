import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.config import EOS, ConfigError, DragomanError, SearchConfig
from dragoman.folder import EXPORT_FILE, describe
from dragoman.inference import translator as translating
from dragoman.inference.conversion import write_model
from dragoman.inference.hypotheses import length_penalty
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from tests.small_models import LINES, small_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    loaded = small_model()
    write_model(loaded, folder)
    (folder / EXPORT_FILE).write_bytes(describe(loaded.direction, loaded.model.config, "ctranslate2", folder))
    return folder


def biased(folder: Path, token: int, bias: float) -> tuple[Translator, Translator]:
    """A model that likes a token more or less than the small one does, and the same exported to a folder."""
    loaded = small_model(softmax_bias=True)
    with torch.no_grad():
        loaded.model.softmax.bias[token] = bias
    write_model(loaded, folder)
    (folder / EXPORT_FILE).write_bytes(describe(loaded.direction, loaded.model.config, "ctranslate2", folder))
    return Translator(loaded), Translator.load(folder)


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_translations_and_scores_are_those_of_pytorch(folder: Path, beam: int) -> None:
    config = SearchConfig(beam=beam, length_penalty=0.0)
    lines = [*LINES, "", " ".join(LINES[:8]), "漢字 �", "   ", ". ".join(LINES[:5])]
    ours = Translator(small_model()).translate(lines, config)
    theirs = Translator.load(folder).translate(lines, config)
    for one, other in zip(ours, theirs, strict=True):
        assert other.subwords == one.subwords
        assert other.log_prob == pytest.approx(one.log_prob, abs=1e-4)


def test_greedy_search_without_log_probabilities_writes_the_same(folder: Path) -> None:
    translator, config = Translator.load(folder), SearchConfig(beam=1, max_length=1)  # some reach the limit
    without, scored = (translator.translate(LINES, replace(config, log_probs=wanted)) for wanted in (False, True))
    assert [one.subwords for one in without] == [one.subwords for one in scored]
    assert all(math.isnan(one.log_prob) for one in without)
    several = replace(config, beam=4, n_best=2)  # a beam needs them
    assert translator.translate(LINES, replace(several, log_probs=False)) == translator.translate(LINES, several)


@pytest.mark.parametrize("max_length", [1, 50])
@pytest.mark.parametrize("penalty", [0.0, 0.6])
def test_a_translation_does_not_depend_on_the_lines_beside_it(folder: Path, max_length: int, penalty: float) -> None:
    """CTranslate2 knows one limit for all lines of a call."""
    config = SearchConfig(beam=4, n_best=2, max_length=max_length, length_penalty=penalty)
    lines = [*LINES[:5], " ".join(LINES[:3])]
    translator = Translator.load(folder)
    together = translator.translate(lines, config)
    for line, found in zip(lines, together, strict=True):
        (alone,) = translator.translate([line], config)
        assert [c.subwords for c in found.candidates] == [c.subwords for c in alone.candidates]
        room = len(translator.vocabulary.source.encode([line])[0]) + 1 + max_length
        assert all(len(candidate.subwords) <= room for candidate in found.candidates)
        assert all(token > EOS for candidate in found.candidates for token in candidate.subwords)


@pytest.mark.parametrize("penalty", [0.6, 1.0])
def test_alternatives_compete_by_dragomans_penalty(folder: Path, penalty: float) -> None:
    config = SearchConfig(beam=4, n_best=4, length_penalty=penalty)
    exact, translator = Translator(small_model()), Translator.load(folder)
    for line, found in zip(LINES, translator.translate(LINES, config), strict=True):
        scores = [candidate.score for candidate in found.candidates]
        assert scores == sorted(scores, reverse=True)
        source = [*exact.vocabulary.source.encode([line])[0], EOS]
        for candidate in found.candidates:
            (log_prob,) = exact.engine.score([source], [[*candidate.subwords, EOS]])
            assert candidate.log_prob == pytest.approx(log_prob, abs=1e-4)
            assert candidate.score == pytest.approx(
                log_prob / length_penalty(len(candidate.subwords) + 1, penalty), abs=1e-4
            )


@pytest.mark.parametrize("penalty", [0.0, 0.6])
def test_a_shortest_length_changes_no_probability(folder: Path, penalty: float) -> None:
    """CTranslate2 itself takes the end away and normalises what is left."""
    config = SearchConfig(beam=4, n_best=4, min_length=20, length_penalty=penalty)
    exact, translator = Translator(small_model()), Translator.load(folder)
    for line, found in zip(LINES[:12], translator.translate(LINES[:12], config), strict=True):
        scores = [candidate.score for candidate in found.candidates]
        assert scores == sorted(scores, reverse=True)
        source = [*exact.vocabulary.source.encode([line])[0], EOS]
        for candidate in found.candidates:
            assert len(candidate.subwords) >= 20
            (log_prob,) = exact.engine.score([source], [[*candidate.subwords, EOS]])
            assert candidate.log_prob == pytest.approx(log_prob, abs=1e-3)
        (alone,) = translator.translate([line], replace(config, n_best=1))
        assert alone.subwords == found.subwords, "what is best does not depend on how many are asked for"


@pytest.mark.parametrize("penalty", [0.0, 0.6])
@pytest.mark.parametrize("n_best", [1, 4])
@pytest.mark.parametrize("max_length", [1, 3])
def test_translations_that_reach_the_limit_are_those_of_pytorch(
    tmp_path: Path, max_length: int, n_best: int, penalty: float
) -> None:
    """CTranslate2 itself leaves out their end, and does not count it."""
    exact, translator = biased(tmp_path, EOS, -8.0)
    config, cut = SearchConfig(beam=4, n_best=n_best, max_length=max_length, length_penalty=penalty), 0
    for line in LINES[::5]:
        source = [*exact.vocabulary.source.encode([line])[0], EOS]
        limit = len(source) + max_length
        ours, theirs = (translator.engine.search([source], config)[0] for translator in (exact, translator))
        assert len({tuple(one.tokens) for one in theirs}) == len(theirs) == n_best
        if penalty == 0.0:
            assert theirs[0].tokens == ours[0].tokens
        log_probs = exact.engine.score([source] * n_best, [[*one.tokens, EOS] for one in theirs])
        assert [one.log_prob for one in theirs] == pytest.approx(log_probs, abs=1e-4)
        assert [one.score for one in theirs] == sorted((one.score for one in theirs), reverse=True)
        cut += any(len(one.tokens) == limit for one in theirs)
    assert cut


@pytest.mark.parametrize("penalty", [0.0, 0.6])
@pytest.mark.parametrize("symbol", ["<unk>", "⟦3⟧"])
def test_what_is_never_written_changes_no_probability(tmp_path: Path, symbol: str, penalty: float) -> None:
    """CTranslate2 itself takes it away and normalises what is left."""
    loaded = small_model(symbols=True, softmax_bias=True)
    (never,) = loaded.vocabulary.target.ids([symbol])
    with torch.no_grad():
        loaded.model.softmax.bias[never] = 6.0
    loaded.save(tmp_path)
    exact, translator = Translator(loaded), Translator.load(tmp_path, "cpu", "ctranslate2", "fp32")
    config, forbidden = SearchConfig(beam=4, n_best=4, length_penalty=penalty), 0
    for line in LINES[:12]:
        source = [*exact.vocabulary.source.encode([line])[0], EOS]
        (first,) = translator.engine._translate([source], config, 50)
        forbidden += any(never in one.tokens for one in first)
        found = translator.translate([line], config)[0].candidates
        assert not any(never in one.subwords for one in found)
        log_probs = exact.engine.score([source] * len(found), [[*one.subwords, EOS] for one in found])
        assert [one.log_prob for one in found] == pytest.approx(log_probs, abs=1e-4)
    assert forbidden
    assert not translator._torch_engines  # PyTorch, which takes long to load, was not needed


def test_scores_of_given_translations_are_those_of_pytorch(folder: Path) -> None:
    pairs = [(line, other[::-1]) for line, other in zip(LINES, LINES[1:] + LINES[:1], strict=True)]
    ours, theirs = (translator.score(pairs) for translator in (Translator(small_model()), Translator.load(folder)))
    assert [s.num_tokens for s in theirs] == [s.num_tokens for s in ours]
    assert [s.log_prob for s in theirs] == pytest.approx([s.log_prob for s in ours], abs=1e-3)


def test_workers_and_the_lines_at_once_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    alone, several = (Translator.load(folder, workers=count) for count in (1, 3))
    expected, done = [one.text for one in alone.translate(LINES)], list[int]()
    assert [one.text for one in several.translate(LINES)] == expected
    monkeypatch.setattr(translating, "_LINES_AT_ONCE", 7)
    assert [one.text for one in several.translate(LINES, progress=done.append)] == expected
    assert (sum(done), len(done)) == (len(LINES), -(-len(LINES) // 7))


def test_of_many_lines_the_one_that_is_refused_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(translating, "_LINES_AT_ONCE", 7)
    translator = Translator.load(folder)
    translator.source = replace(translator.source, max_length=5)
    translator.direction = replace(translator.direction, facts={"longest training side": 5})
    with pytest.raises(DragomanError, match="source line 19 has 6 subwords, but the model takes at most 5"):
        translator.translate([*["cat"] * 8, "\U0001f468", *["cat"] * 20], first_line=11)


def test_attention_and_alignments_are_those_of_pytorch(folder: Path) -> None:
    ours, theirs = Translator(small_model()), Translator.load(folder)
    lines = [*LINES, "", ". ".join(LINES[:5])]
    translations = ours.translate(lines)
    sources = ours.source.encode(LINES, LINES)
    targets = [[*ids, EOS] for ids in ([], *(one.subwords for one in translations[1 : len(LINES)]))]
    layer = ours.aligning_layer(0)
    pairs = (translator.engine.cross_attention(sources, targets, layer) for translator in (ours, theirs))
    for source, target, here, there in zip(sources, targets, *pairs, strict=True):
        mean = here.mean(axis=0)[: len(target) - 1, : len(source) - 1]
        assert there.ravel() == pytest.approx(mean.ravel(), abs=1e-5)
    assert theirs.align(lines, translations) == ours.align(lines, translations)


def test_what_looks_inside_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match="take the model folder that was exported"):
        inspect(Translator.load(folder), LINES[3])
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    before = json.loads((folder / EXPORT_FILE).read_text())
    del before["attends"]  # by a version that did not export the layer
    (tmp_path / EXPORT_FILE).write_text(json.dumps(before))
    for translator, layer in ((Translator.load(tmp_path), 0), (Translator.load(folder), 1)):
        with pytest.raises(DragomanError, match="take the model folder that was exported"):
            translator.align(LINES[:2], translator.translate(LINES[:2]), layer)


def test_pytorch_cannot_read_an_exported_folder(folder: Path) -> None:
    with pytest.raises(ConfigError, match="take the model folder"):
        Translator.load(folder, engine="torch")


@pytest.mark.parametrize("content", [b"", b"\x06\x00\x00\x00" + bytes(100)])
def test_a_damaged_model_is_one_sentence(folder: Path, tmp_path: Path, content: bytes) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.bin").write_bytes(content)
    with pytest.raises(DragomanError, match=r"model.bin: missing, damaged, or of another model"):
        Translator.load(tmp_path)
    loaded = small_model()
    (tmp_path / EXPORT_FILE).unlink()
    described = describe(loaded.direction, loaded.model.config, "ctranslate2", tmp_path)
    (tmp_path / EXPORT_FILE).write_bytes(described)
    with pytest.raises(DragomanError, match=r"CTranslate2 can't read it"):
        Translator.load(tmp_path)
