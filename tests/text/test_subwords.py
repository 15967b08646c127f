"""Subwords: what is written comes back, nothing is unknown, and what cannot be learnt is said in one sentence."""

import io
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Literal

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.config import BOS, EOS, PAD, UNK, DragomanError, TextConfig
from dragoman.text.subwords import SPECIALS, ListedModel, SubwordModel, Vocabulary, learn_subwords

ENGLISH = [
    "The cat sleeps on the warm roof of the house.",
    "A dog barks at the cat, but the cat does not wake.",
    "Every morning the birds sing in the old tree.",
    "We walk to the river and look at the boats.",
]
GERMAN = [
    "Die Katze schläft auf dem warmen Dach des Hauses.",
    "Ein Hund bellt die Katze an, aber die Katze wacht nicht auf.",
    "Jeden Morgen singen die Vögel im alten Baum.",
    "Wir gehen zum Fluss und sehen die Boote an.",
]
SMALL = TextConfig(vocab_size=340)

NEVER_SEEN = [
    "Ein größerer Köter!",
    "Съешь ещё этих мягких французских булок",
    "أهلاً وسهلاً بكم في العالم",
    "你好，世界。今天天气很好",
    "こんにちは、世界。カタカナも",
    "สวัสดีชาวโลก",
    "नमस्ते दुनिया",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽",
    "e\u0301 \u00e9 ﬁ ½",
    "a\u00a0b\u3000c\u2028d\u200be",
    "tab\there",
    "<s> </s> <unk> <pad> <0x41>",
]


@cache
def learned() -> SubwordModel:
    """One model for all examples of a property."""
    return learn_subwords(ENGLISH + GERMAN, SMALL)


@pytest.fixture
def model() -> SubwordModel:
    return learned()


@pytest.mark.parametrize(("rule", "shown"), [("identity", "ﬁ e\u0301 Ａ"), ("nfkc", "fi é A"), ("nmt_nfkc", "fi é A")])
def test_text_is_normalized_as_asked(rule: Literal["identity", "nfkc", "nmt_nfkc"], shown: str) -> None:
    model = learn_subwords(ENGLISH * 50, TextConfig(vocab_size=300, normalization=rule))
    assert model.decode(model.encode(["ﬁ e\u0301 Ａ"])) == [shown]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_text_of_every_script_survives_the_round_trip(kind: Literal["bpe", "unigram"]) -> None:
    model = learn_subwords(ENGLISH + GERMAN, TextConfig(vocab_size=340, subwords=kind))
    assert model.pieces(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    texts = [*ENGLISH, *GERMAN, *NEVER_SEEN]
    ids = model.encode(texts)
    assert model.decode(ids) == texts
    assert not {PAD, UNK, BOS, EOS} & {i for sentence in ids for i in sentence}


# "▁" is SentencePiece's own sign for a space: it comes back as one.
@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\n▁"), min_size=1, max_size=30))
@example("\x00")
@example("\ufeff")
def test_any_line_survives_the_round_trip_and_is_never_unknown(text: str) -> None:
    text = " ".join(word for word in text.split(" ") if word)
    model = learned()
    (ids,) = model.encode([text])
    assert model.decode([ids]) == [text]
    assert all(EOS < i < len(model) for i in ids)


@cache
def normalizing(rule: Literal["identity", "nfkc", "nmt_nfkc"]) -> SubwordModel:
    return learn_subwords((ENGLISH + GERMAN) * 9, TextConfig(vocab_size=340, normalization=rule, placeholders=0.1))


_ODD = " ▁⟦⟧12ﬁ´¨\u0301\u3000\u00a0\u200b\u2581\t</s>the catü"


@pytest.mark.parametrize("rule", ["identity", "nfkc", "nmt_nfkc"])
@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(st.sampled_from(_ODD) | st.characters(codec="utf-8"), max_size=40), max_size=4))
@example(["  ⟦1⟧ the  ´ cat ", " ▁ ▁▁ a▁", ""])
def test_text_is_encoded_word_by_word_as_line_by_line(
    rule: Literal["identity", "nfkc", "nmt_nfkc"], lines: list[str]
) -> None:
    model = normalizing(rule)
    assert model.merges
    assert model.encode_text([*lines, *ENGLISH]) == model.encode([*lines, *ENGLISH])


@pytest.mark.parametrize("listed", [False, True])
def test_characters_of_which_nothing_was_learned_are_named(model: SubwordModel, listed: bool) -> None:
    if listed:  # with ids of its own, as Marian's, and without the bytes
        pieces = [piece for piece in model.listed if not piece.startswith("<0x")]
        model = ListedModel(model.serialized, listed=[*pieces[:4], *reversed(pieces[4:])])
    lines = ["The cat sleeps.", "", "<b>The {cat}</b> sees Катя {twice} 👍"]
    assert model.unknown_characters(lines) == ["", "", "<>{}/Катя👍"]


QUOTED = ['"It\'s a well-known fox," he said: schön.', "The fish is full, I'm told; it's so soft..."]


@pytest.mark.parametrize("quotes", ["'\"-", "’”–"])
def test_what_looks_alike_stands_in_for_characters_that_are_unknown(quotes: str) -> None:
    table = str.maketrans("'\"-", quotes)
    model = learn_subwords([line.translate(table) for line in QUOTED * 20], TextConfig(vocab_size=310))
    for line, expected in {
        "The fox’s ‘fish‘ — “soft” - it´s": "The fox's 'fish' - \"soft\" - it's",
        "so\u00adft\u200b,\u00a0I\u202ftold": "soft, I told",
        "ﬁsh… ｆｕｌｌ": "fish... full",
        "scho\u0308n": "schön",
        "10² Катя": "10² Катя",
    }.items():
        assert model.readable(line) == expected.translate(table)


@pytest.mark.parametrize(("known", "typed"), [("کتاب علی", "كتاب علي"), ("علی", "ﻋﻠﯽ"), ("м'яч", "мʼяч")])
def test_letters_of_other_keyboards_and_fonts_are_read_as_those_of_the_text(known: str, typed: str) -> None:
    model = learn_subwords(["کتاب علی", "м'яч"] * 20, TextConfig(vocab_size=310))
    assert model.readable(typed) == known


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_a_line_is_readable_once_and_for_all_and_what_is_known_stays(line: str) -> None:
    model = learned()
    readable = model.readable(line)
    assert model.readable(readable) == readable
    known = "".join(c for c in line if not model.unknown_characters([c])[0] and not c.isspace())
    assert model.readable(known) == known


def test_words_in_capitals_are_respelt_as_the_subwords_know_them_best() -> None:
    model = learn_subwords((ENGLISH + GERMAN) * 20, TextConfig(vocab_size=480))
    assert model.respelt("THE CAT SLEEPS  ON DEM DACH DES HAUSES .") == "The cat sleeps  on dem Dach des Hauses ."


def test_special_symbols_leave_no_trace_in_the_text(model: SubwordModel) -> None:
    (ids,) = model.encode([ENGLISH[0]])
    assert model.decode([[BOS, *ids, EOS, PAD, PAD], []]) == [ENGLISH[0], ""]


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.99])
def test_sampled_subwords_spell_the_same_text(dropout: float, model: SubwordModel) -> None:
    lines = [*ENGLISH, *GERMAN, *NEVER_SEEN]
    found = model.sample(lines, dropout, seed=3)
    assert model.decode(found) == model.decode(model.encode(lines))
    assert not any(i in (PAD, UNK, BOS, EOS) for ids in found for i in ids)


def test_the_same_seed_samples_the_same_subwords(model: SubwordModel) -> None:
    lines = (ENGLISH + GERMAN) * 40
    first = model.sample(lines, 0.1, seed=2**62 + 5)
    assert model.sample(lines, 0.1, seed=6) != first
    assert model.sample(lines, 0.1, seed=2**62 + 5) == first
    for count in (1, 7):
        assert model.sample(lines[:count], 0.1, seed=2**62 + 5) == first[:count]
    code = "import sys; from dragoman.text.subwords import SubwordModel as M; lines = sys.argv[1].split('|')\n"
    code += "print(M(sys.stdin.buffer.read()).sample(lines, 0.1, seed=2**62 + 5))"
    command = [sys.executable, "-c", code, "|".join(lines)]
    other_process = subprocess.run(command, input=model.serialized, capture_output=True, check=True)
    assert other_process.stdout.decode() == f"{first}\n"
    assert len({tuple(ids) for ids in first}) > len(ENGLISH + GERMAN)  # equal lines are cut in many ways


def test_only_bpe_has_merges(model: SubwordModel) -> None:
    unigram = learn_subwords(ENGLISH + GERMAN, TextConfig(vocab_size=340, subwords="unigram"))
    listed = ListedModel(model.serialized, listed=model.pieces(range(len(model))))
    assert [one.merges for one in (model, unigram, listed)] == [True, False, False]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_processors_make_no_difference(kind: Literal["bpe", "unigram"], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{english} {number * 7919}" for number, english in enumerate(ENGLISH * 20)]
    models = set()
    for processors in (1, 2, 8):
        monkeypatch.setattr("os.cpu_count", lambda processors=processors: processors)
        models.add(learn_subwords(lines, TextConfig(vocab_size=340, subwords=kind)).serialized)
    assert len(models) == 1


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_larger_than_the_text_supports_becomes_as_large_as_it_can(kind: str) -> None:
    config = TextConfig(vocab_size=30_000, subwords=kind)  # type: ignore[arg-type]
    model = learn_subwords(ENGLISH, config)
    assert 260 < len(model) < 30_000
    assert model.decode(model.encode(ENGLISH)) == ENGLISH


def test_a_vocabulary_too_small_for_the_characters_names_the_smallest_that_works() -> None:
    characters = ["".join(chr(0x4E00 + i + 40 * line) for i in range(40)) for line in range(10)]
    with pytest.raises(DragomanError, match=r"vocab_size must be at least \d+") as error:
        learn_subwords(characters, TextConfig(vocab_size=300, character_coverage=1.0))
    smallest = int(str(error.value).rsplit(" ", 1)[1])
    assert len(learn_subwords(characters, TextConfig(vocab_size=smallest, character_coverage=1.0))) <= smallest


def test_a_text_without_sentences_is_refused() -> None:
    with pytest.raises(DragomanError, match="no sentences"):
        learn_subwords(["  ", "\t", "\u3000"], SMALL)


def test_a_damaged_model_is_named(model: SubwordModel) -> None:
    whole, not_utf8 = model.serialized, b"\xe2\x96\xffcat"
    for content in (b"", whole[:100], whole[:-7], b"\x89PNG\r\n\x1a\n" * 20, whole.replace("▁cat".encode(), not_utf8)):
        with pytest.raises(DragomanError, match=r"here\.model: damaged, or not a SentencePiece model"):
            SubwordModel(content, "here.model")


# ---- vocabularies of two languages


def test_separate_vocabularies_are_learnt_from_their_own_language() -> None:
    config = TextConfig(vocab_size=320, vocabulary="separate")
    vocabulary = Vocabulary.learn((ENGLISH, GERMAN), config)
    assert not vocabulary.joint
    assert vocabulary.source.serialized == learn_subwords(ENGLISH, config).serialized
    assert vocabulary.target.serialized == learn_subwords(GERMAN, config).serialized


@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_a_vocabulary_read_from_its_files_is_the_same(kind: str, tmp_path: Path) -> None:
    vocabulary = Vocabulary.learn((ENGLISH, GERMAN), TextConfig(vocab_size=320, vocabulary=kind))  # type: ignore[arg-type]
    vocabulary.save(tmp_path)
    loaded = Vocabulary.load(tmp_path)
    assert loaded.joint == vocabulary.joint
    assert loaded.source.encode(ENGLISH) == vocabulary.source.encode(ENGLISH)
    assert loaded.target.encode(GERMAN) == vocabulary.target.encode(GERMAN)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    Vocabulary.learn((ENGLISH, GERMAN), TextConfig(vocab_size=320, vocabulary="separate")).save(tmp_path)
    (tmp_path / "source.spm").unlink()
    with pytest.raises(DragomanError, match=r"source\.spm"):
        Vocabulary.load(tmp_path)


# ------------------------------------------------------------------------------------- subwords with a list


def listed(model: SubwordModel, *left_out: str) -> ListedModel:
    """The same model with its subwords in another order, without some, and with a tag."""
    pieces = model.pieces(range(4, len(model)))
    kept = [piece for piece in reversed(pieces) if piece not in left_out]
    return ListedModel(model.serialized, listed=[*SPECIALS, ">>fra<<", *kept])


def test_a_list_gives_the_same_subwords_other_ids(model: SubwordModel) -> None:
    other = listed(model)
    for line in ENGLISH:
        (ids,), (plain,) = other.encode([line]), model.encode([line])
        assert other.pieces(ids) == model.pieces(plain)
        assert ids != plain
        assert other.ids(other.pieces(ids)) == ids
        assert other.decode([ids]) == model.decode([plain])


def test_a_character_that_is_known_inside_of_words_is_not_unknown() -> None:
    text = "the ﬁsh if fit"
    other = listed(learn_subwords([text] * 20, TextConfig(vocab_size=300)), "ﬁ", "▁ﬁ")
    assert (other.readable(text), other.unknown_characters([text])) == (text, [""])
    assert (other.readable("the ﬁ"), other.unknown_characters(["the ﬁ"])) == ("the fi", ["ﬁ"])


def test_characters_of_the_other_language_are_found_in_the_list(tmp_path: Path) -> None:
    """As MarianTokenizer finds them: source.spm does not know them, but vocab.json has the subwords of both sides."""
    output = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH), model_writer=output, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=output.getvalue())
    own = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    model = ListedModel(output.getvalue(), listed=[*SPECIALS, *own, "Ж", "Жи"])
    for line in ("Ж", "a Ж b", "Ю", "aЖиb", "a </s> b <unk>"):
        pieces = processor.encode(line, out_type=str)
        (ids,) = model.encode([line])
        assert ids == [model.listed.index(piece) if piece in model.listed[4:] else UNK for piece in pieces]
    assert model.listed.index("Ж") in model.encode(["a Ж b"])[0]
    assert UNK in model.encode(["Ю"])[0]


def test_a_tag_is_one_subword_at_the_beginning_of_a_line(model: SubwordModel) -> None:
    other = listed(model)
    tag, plain = other.ids([">>fra<<"]), other.encode([ENGLISH[0]])[0]
    assert other.encode([f">>fra<< {ENGLISH[0]}", f">>fra<<{ENGLISH[0]}"]) == [[*tag, *plain]] * 2
    assert other.split_tag(f">>fra<<{ENGLISH[0]}") == (">>fra<<", ENGLISH[0])
    for line in (f">>deu<< {ENGLISH[0]}", f"{ENGLISH[0]} >>fra<<", ">> a << b"):
        assert other.split_tag(line) == ("", line)
        assert tag[0] not in other.encode([line])[0]


def test_lists_are_kept_beside_the_models(model: SubwordModel, tmp_path: Path) -> None:
    one = listed(model)
    for target, files in ((listed(model), 3), (listed(model, "a"), 4)):
        vocabulary = Vocabulary(one, target)
        assert len(vocabulary.files()) == files
        vocabulary.save(tmp_path)
        again = Vocabulary.load(tmp_path)
        assert again.files() == vocabulary.files()
        assert again.target.encode(ENGLISH) == target.encode(ENGLISH)
        assert not again.joint


@pytest.mark.parametrize("pieces", [[], ["a", "b"], [*SPECIALS, "a", "a"], ["<unk>", "<pad>", "<s>", "</s>"]])
def test_a_list_begins_with_the_special_symbols_and_repeats_nothing(pieces: list[str], model: SubwordModel) -> None:
    with pytest.raises(DragomanError, match="must begin with"):
        ListedModel(model.serialized, listed=pieces)


@pytest.mark.parametrize("content", [b"", b"1", b"\xff"])
def test_a_damaged_list_is_named(content: bytes, model: SubwordModel, tmp_path: Path) -> None:
    Vocabulary(listed(model), listed(model)).save(tmp_path)
    (tmp_path / "vocabulary.json").write_bytes(content)
    with pytest.raises(DragomanError, match=r"vocabulary\.json"):
        Vocabulary.load(tmp_path)
