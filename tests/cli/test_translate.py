from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.checkpoint import Direction, ModelFolder
from dragoman.cli import translate as commands
from dragoman.cli.main import main
from dragoman.cli.options import TranslateConfig
from dragoman.config import ConfigError, DragomanError, ModelConfig, SearchConfig, TextConfig
from dragoman.inference.alignment import Alignment
from dragoman.inference.results import Part, Translation
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.runtime.console import NowAndThen
from dragoman.runtime.files import checksum
from dragoman.text.subwords import Vocabulary

CANDIDATES = [Translation("eins", -1.0, -0.5, [7]), Translation("zwei", -2.0, -1.0, [8])]
ALIGNMENTS = [Alignment([(1, 0)], ["a", "one"], ["eins"]), Alignment([(0, 0)], ["a", "one"], ["zwei"])]


def shown(aligned: bool = False, **settings: object) -> str:
    config = TranslateConfig(folder="x", **settings)  # type: ignore[arg-type]
    number = 2 if config.n_best > 1 or config.format == "moses" else 1
    alignments = ALIGNMENTS if aligned else [None, None]
    return commands._format(3, CANDIDATES[:number], alignments[:number], config)


def test_text_is_the_best_translation_and_nothing_else() -> None:
    assert shown() == "eins"


@pytest.mark.parametrize("settings", [{"format": "moses"}, {"n_best": 2}])
def test_lists_have_one_candidate_a_line_as_moses_writes_them(settings: dict[str, object]) -> None:
    assert shown(**settings) == "3 ||| eins ||| -1.0000 ||| -0.5000\n3 ||| zwei ||| -2.0000 ||| -1.0000"


def test_json_has_the_alternatives_when_they_were_asked_for() -> None:
    assert json.loads(shown(format="json")) == {"text": "eins", "log_prob": -1.0, "score": -0.5}
    alternatives = json.loads(shown(format="json", n_best=2))["alternatives"]
    assert alternatives == [{"text": "zwei", "log_prob": -2.0, "score": -1.0}]


def test_json_says_of_how_many_parts_a_score_is_the_sum() -> None:
    split = replace(CANDIDATES[0], parts=[Part("a", [7]), Part("b", [8])])
    config = TranslateConfig(folder="x", format="json")
    assert json.loads(commands._format(0, [split], [None], config))["parts"] == 2


def test_alignments_follow_the_translation() -> None:
    assert shown(aligned=True) == "eins ||| 1-0"
    first, second = shown(aligned=True, n_best=2).split("\n")
    assert first == "3 ||| eins ||| -1.0000 ||| -0.5000 ||| 1-0"
    assert second == "3 ||| zwei ||| -2.0000 ||| -1.0000 ||| 0-0"
    best = json.loads(shown(aligned=True, format="json", n_best=2))
    assert best["alternatives"][0]["alignment"] == [[0, 0]]
    assert (best["alignment"], best["source_tokens"], best["target_tokens"]) == ([[1, 0]], ["a", "one"], ["eins"])


def test_lines_of_a_file_arrive_in_order_in_bounded_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_LINES_AT_ONCE", 10)
    path = tmp_path / "text"
    path.write_text("".join(f"{i}\n" for i in range(57)))
    lists = list(commands._incoming(str(path)))
    assert [line for some in lists for line in some] == [str(i) for i in range(57)]
    assert all(0 < len(some) <= 10 for some in lists)


def test_lines_before_a_fault_are_delivered_and_the_fault_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"good\nalso good\n\xff\xfe\n")
    received: list[str] = []
    with pytest.raises(DragomanError, match=r"text, line 3, byte 1"):  # noqa: PT012
        for lines in commands._incoming(str(path)):
            received += lines
    assert received == ["good", "also good"]


def test_scoring_names_the_line_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        class direction:
            source, target = "en", "xx"

        def score(self, pairs: list[tuple[str, str]], first_line: int) -> Iterator[None]:
            for number, (source, _) in enumerate(pairs, start=first_line):
                if source == "long":
                    raise DragomanError(f"source line {number} is long")
            return iter(())

    monkeypatch.setattr(commands, "_LINES_AT_ONCE", 2)
    monkeypatch.setattr(commands.Translator, "load", lambda folder, device: Fake())
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\na\tb\na\tb\nlong\tb\n")
    monkeypatch.setattr("sys.stdout", io.StringIO())
    with pytest.raises(DragomanError, match=r"pairs\.tsv: source line 4 is long"):
        commands.score(commands.ScoreConfig(folder="x", test=[str(path)]))


def small_translator(max_length: int = 14) -> Translator:
    """A translator with random weights."""
    torch.manual_seed(3)
    vocabulary = Vocabulary.learn(
        (["the cat sees a dog."] * 9, ["le chat voit un chien."] * 9), TextConfig(vocab_size=320)
    )
    sizes = {"source_vocab_size": len(vocabulary.source), "target_vocab_size": len(vocabulary.target)}
    shape = ModelConfig(d_model=16, d_ff=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    model = Transformer(replace(shape, max_length=max_length, **sizes))
    return Translator(ModelFolder(model.eval(), vocabulary, Direction("en", "fr")))


LONG = "The cat sees a dog. A cat sees the dog. The dog sees."


@pytest.fixture
def model(tmp_path: Path) -> str:
    small_translator().folder.save(tmp_path / "model")
    return str(tmp_path / "model")


def test_long_lines_are_split_and_lines_stay_in_order(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text(f"a cat\n\n{LONG}\na dog\n")
    assert (
        main(["translate", model, str(tmp_path / "text"), "--beam", "2", "--device", "cpu", "--precision", "fp32"]) == 0
    )
    printed = capsys.readouterr()
    expected = small_translator().translate(["a cat", "", LONG, "a dog"], SearchConfig(beam=2))
    assert printed.out == "".join(f"{t.text}\n" for t in expected)
    assert len(expected[2].parts) >= 3
    assert printed.err == ""


def test_what_is_cut_off_is_said_with_the_line_and_shown_in_json(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_LINES_AT_ONCE", 2)
    (tmp_path / "text").write_text(f"a cat\na\nb\n{LONG}\n")
    arguments = ["translate", model, str(tmp_path / "text"), "--long", "truncate", "--format", "json", "--alignments"]
    assert main([*arguments, "--device", "cpu"]) == 0
    printed = capsys.readouterr()
    objects = [json.loads(line) for line in printed.out.split("\n")[:-1]]
    left_out = objects[3]["left_out"]
    assert printed.err == (
        f"{tmp_path}/text, line 4: too long for the model; its last {left_out} characters are not translated "
        f"(--long split translates all)\n"
    )
    assert all("left_out" not in one for one in objects[:3])
    assert objects[3]["source_tokens"] == LONG[:-left_out].split()


def test_a_long_line_is_an_error_only_where_that_is_wished(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text(f"a cat\n{LONG}\n")
    assert main(["translate", model, str(tmp_path / "text"), "--long", "error", "--device", "cpu"]) == 1
    assert re.search(r"text: source line 2 has \d+ subwords, but .* at most 14 subwords", capsys.readouterr().err)


def test_the_alignment_of_a_long_line_counts_the_words_of_the_line(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text(f"{LONG}\n")
    assert (
        main(["translate", model, str(tmp_path / "text"), "--alignments", "--format", "json", "--device", "cpu"]) == 0
    )
    shown = json.loads(capsys.readouterr().out)
    assert shown["source_tokens"] == LONG.split()
    assert max(source for source, _ in shown["alignment"]) >= 9  # beyond the first sentences
    assert sorted({target for _, target in shown["alignment"]}) == list(range(len(shown["target_tokens"])))


def test_evaluation_splits_long_lines_and_says_what_it_cuts_off(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.tsv").write_text(f"a cat\tun chat\n{LONG}\tle chat\n")
    arguments = ["evaluate", model, "--test", str(tmp_path / "test.tsv"), "--json", str(tmp_path / "scores.json")]
    assert main([*arguments, "--device", "cpu"]) == 0
    printed, written = capsys.readouterr(), json.loads((tmp_path / "scores.json").read_text())
    expected = small_translator().translate(["a cat", LONG])
    assert [line["translation"] for line in written["lines"]] == [t.text for t in expected]
    assert written["settings"]["long"] == "split"
    assert "not translated" not in printed.err
    assert main([*arguments, "--long", "truncate", "--device", "cpu"]) == 0
    assert "test.tsv, line 2: too long for the model" in capsys.readouterr().err


@pytest.mark.parametrize(("watched", "said"), [(True, "2 lines translated"), (False, "")])
def test_who_translates_a_file_from_a_terminal_sees_how_far_it_is(
    watched: bool, said: str, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text(f"the cat\n{LONG}\n")  # two lines, however many their parts
    monkeypatch.setattr("dragoman.cli.translate.NowAndThen", lambda report: NowAndThen(report, 0.0))
    monkeypatch.setattr("sys.stderr", terminal := io.StringIO())
    monkeypatch.setattr(terminal, "isatty", lambda: watched)
    assert main(["translate", model, str(tmp_path / "text"), "--device", "cpu", "--workers", "1"]) == 0
    assert terminal.getvalue().strip().split("\n")[-1] == said
    assert max(re.findall(r"^(\d+) lines", terminal.getvalue(), flags=re.M), default="0") <= "2"


def test_who_is_to_type_is_told_so(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = io.TextIOWrapper(io.BytesIO(b"the cat\n"))
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", typed)
    assert main(["translate", model, "--device", "cpu", "--workers", "1"]) == 0
    told = capsys.readouterr()
    assert told.err == "type a sentence on each line; Ctrl-D ends\n"
    assert len(told.out.splitlines()) == 1


def test_a_sentence_in_place_of_a_file_is_told_what_to_do(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", model, "Where is the station?", "--device", "cpu"]) == 1
    assert capsys.readouterr().err == (
        "dragoman: Where is the station?: no such file; to translate a sentence: "
        f"echo '…' | dragoman translate {model}\n"
    )


def test_evaluating_what_the_model_has_seen_is_warned_about(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.tsv").write_text(f"a cat\tun chat\n{name}\t{name}\n")
    folder = Path(model)
    (folder / "data").mkdir()
    files = [[name, 1, 1, checksum(tmp_path / f"{name}.tsv")] for name in ("train", "valid", "test")]
    (folder / "data" / "key.json").write_text(json.dumps({"files": files}))
    settings = {"source": "en", "target": "fr", "test": [str(tmp_path / "test.tsv")]}
    (folder / "train.yaml").write_text(json.dumps(settings))
    for language in ("en", "fr"):  # what a run without --valid holds out itself
        (folder / f"heldout.{language}").write_text(f"a dog in {language}\n")
    texts = {name: str(tmp_path / f"{name}.tsv") for name in ("train", "valid", "test")}
    for name, text in (texts | {"heldout": str(folder / "heldout")}).items():
        assert main(["evaluate", model, "--test", text, "--device", "cpu"]) == 0
        warned = "the model was trained or chosen with this text" in capsys.readouterr().err
        assert warned is (name != "test")


def test_evaluating_a_text_that_is_the_wrong_way_round_is_warned_about(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    english = ["the cat is on the table and it is not here", "this is what they have with them for the day"] * 20
    french = ["le chat est sur la table et il n'est pas ici", "c'est ce que les autres ont avec eux pour le jour"] * 20
    for sides, expected in (((english, french), False), ((french, english), True)):
        lines = (f"{source}\t{target}\n" for source, target in zip(*sides, strict=True))
        (tmp_path / "test.tsv").write_text("".join(lines))
        assert main(["evaluate", model, "--test", str(tmp_path / "test.tsv"), "--device", "cpu"]) == 0
        assert ("seems to be the wrong way round" in capsys.readouterr().err) is expected


def test_an_average_never_takes_the_place_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "model.safetensors").write_bytes(b"the best")
    checkpoint = run / "checkpoints" / "step-00000001.safetensors"
    checkpoint.parent.mkdir()
    checkpoint.write_bytes(b"")
    assert main(["average", str(run), "--out", str(run)]) == 1
    assert "choose another --out" in capsys.readouterr().err
    assert (run / "model.safetensors").read_bytes() == b"the best"


# ---------------------------------------------------------------------------------------------- workers, precision

SIX = ["a cat", "the dog sees a cat.", "", "a dog", "le chat", "the cat sees a dog. a cat"]
SETTINGS = [[], ["--workers", "0"], ["--workers", "1"], ["--workers", "2"], ["--workers", "3", "--batch-tokens", "20"]]


@pytest.mark.parametrize("settings", SETTINGS, ids=" ".join)
def test_any_number_of_workers_translates_alike(
    settings: list[str], tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in SIX))
    arguments = ["translate", model, str(tmp_path / "text"), "--device", "cpu", "--precision", "fp32", *settings]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert printed.out == "".join(f"{t.text}\n" for t in small_translator().translate(SIX))
    assert printed.err == ""


@pytest.mark.parametrize("settings", SETTINGS, ids=" ".join)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_evaluation_records_precision_and_workers_and_translates_with_them(
    precision: str, settings: list[str], tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.tsv").write_text("".join(f"{line}\tun chat\n" for line in SIX if line))
    arguments = ["evaluate", model, "--test", str(tmp_path / "test.tsv"), "--json", str(tmp_path / "scores.json")]
    assert main([*arguments, "--device", "cpu", "--precision", precision, *settings]) == 0
    written = json.loads((tmp_path / "scores.json").read_text())
    assert written["settings"]["precision"] == precision
    assert written["settings"]["workers"] == (int(settings[1]) if settings else 0)
    translator = Translator(small_translator().folder, "cpu", autocast=precision == "bf16")
    expected = [t.text for t in translator.translate([line for line in SIX if line])]
    found = [line["translation"] for line in written["lines"]]
    # In bf16 the company in a batch can turn the order of two words that are about as good.
    assert sum(a == b for a, b in zip(found, expected, strict=True)) >= (5 if precision == "fp32" else 3)
    assert "BLEU" in capsys.readouterr().out


def test_a_long_evaluation_says_how_far_it_is(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.tsv").write_text("the cat\tun chat\n" * 9)
    arguments = ["evaluate", model, "--test", str(tmp_path / "test.tsv"), "--device", "cpu", "--workers", "1"]
    assert main(arguments) == 0
    assert "translated" not in capsys.readouterr().err, "nobody had to wait"
    monkeypatch.setattr("dragoman.cli.evaluate.NowAndThen", lambda report: NowAndThen(report, 0.0))
    assert main(arguments) == 0
    assert "9 of 9 lines translated" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "autocast", "workers"),
    [
        (["--precision", "bf16"], True, 3),
        (["--precision", "fp32", "--workers", "0"], False, 3),
        (["--precision", "bf16", "--workers", "1"], True, 1),
        (["--precision", "fp32", "--workers", "5"], False, 4),
    ],
    ids=["bf16", "fp32, 0", "bf16, 1", "fp32, 5"],
)
@pytest.mark.parametrize("verb", ["translate", "evaluate"])
def test_both_verbs_make_the_translator_that_was_asked_for(
    verb: str,
    settings: list[str],
    autocast: bool,
    workers: int,
    tmp_path: Path,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Translator] = []

    class Recording(Translator):
        def translate(self, *arguments: object, **options: object) -> list[Translation]:
            made.append(self)
            return [Translation("eins")]

    monkeypatch.setattr(commands, "Translator", Recording)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr("dragoman.inference.workers.available_cores", lambda: 4)
    (tmp_path / "test.tsv").write_text("a cat\tun chat\n")
    text = [str(tmp_path / "test.tsv")] if verb == "translate" else ["--test", str(tmp_path / "test.tsv")]
    assert main([verb, model, *text, "--device", "cpu", *settings]) == 0
    assert [(t.engine.autocast, t.workers) for t in made] == [(autocast, workers)]


def test_by_default_scores_are_those_of_fp32_and_translations_of_what_is_faster() -> None:
    assert commands.EvaluateConfig(folder="x", test=["y"]).precision == "fp32"
    assert TranslateConfig(folder="x").precision == "auto"


@pytest.mark.parametrize("verb", [["translate"], ["evaluate", "--test", "test.tsv"]], ids=lambda verb: verb[0])
@pytest.mark.parametrize(
    ("settings", "message"),
    [(["--workers", "-1"], r"\bworkers\b"), (["--precision", "fp16"], r"precision\b.*fp16")],
    ids=["workers", "precision"],
)
def test_impossible_settings_are_refused_in_one_sentence(
    verb: list[str], settings: list[str], message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main([verb[0], model, *verb[1:], *settings])
    except SystemExit as error:
        code = int(str(error.code))
    assert code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(message, printed.err)
    assert printed.err.count("\n") == 1, printed.err


def test_a_file_is_translated_in_the_same_batches_however_slowly_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(path: Path) -> Iterator[str]:
        for line in path.read_text().splitlines():
            time.sleep(0.01)
            yield line

    monkeypatch.setattr(commands, "read_lines", slowly)
    monkeypatch.setattr(commands, "_LINES_AT_ONCE", 4)
    (tmp_path / "text").write_text("a\nb\nc\nd\ne\n")
    assert list(commands._incoming(str(tmp_path / "text"))) == [["a", "b", "c", "d"], ["e"]]


def test_settings_are_refused_as_such_and_not_as_faults_of_the_text(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("a cat\n")
    assert main(["translate", model, str(tmp_path / "text"), "--min-length", "600"]) == 2
    assert "text:" not in capsys.readouterr().err
    with pytest.raises(ConfigError), commands.naming("text"):
        raise ConfigError("no")


def test_a_layer_that_is_not_there_is_told_before_anything_is_translated(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("a cat\n")
    monkeypatch.setattr(Translator, "translate", lambda *arguments: pytest.fail("translated"))
    assert main(["translate", model, str(tmp_path / "text"), "--alignments", "--alignment-layer", "9"]) == 2
    assert "the model has 1 decoder layer" in capsys.readouterr().err
