"""The splitter of an Argos package, run as Argos runs it: by MiniSBD."""

from typing import Any

import pytest

from dragoman.interop.sentence_ends import build_splitter, known_abbreviations

minisbd = pytest.importorskip("minisbd", reason="needs minisbd: pip install 'dragoman[dev]'")
pytest.importorskip("onnx", reason="needs onnx: pip install 'dragoman[argos]'")

TEXTS = {
    "en": [
        ["Hello Mr. Smith.", "How are you?", "I paid $3.50 for it...", "Really!", '"It works."', "He left."],
        ["See e.g. the report of J. Smith.", "(In brackets.)", "Then “Yes.”", "Visit www.example.com.", "No end"],
        ["It was 1999.", "Then 12.", "The cat sat. the dog ran?!", "Ok"],
    ],
    "de": [
        [
            "Das war am 3. Mai.",
            "Dr. Müller kam z.B. um acht.",
            "„Ja.“",
            "Er ging.",
            "Was?",
            "Es war 1999.",
            "Dann kam er.",
        ]
    ],
    "fr": [["M. Martin est là.", "Ça va ?", "« Bonjour. »", "Il est parti.", "« Non ! » dit-il.", "Fin."]],
}
IN_EVERY_SCRIPT = [  # by the splitter of any language; those of Chinese and Japanese have no spaces between them
    (["Как дела?", "Хорошо.", "А. С. Пушкин жил тут."], " "),
    (["क्या हाल है?", "मैं ठीक हूँ।", "तुम कैसे हो?"], " "),
    (["他说：“你好。”", "我走了！", "真的？", "「はい。」", "と言った。"], ""),
]


@pytest.fixture(scope="module", params=TEXTS)
def splitter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    path = tmp_path_factory.mktemp("splitter") / "splitter.onnx"
    path.write_bytes(build_splitter(request.param, []))
    return request.param, minisbd.SBDetect(str(path), use_gpu=False)


def test_sentences_are_found(splitter: tuple[str, Any]) -> None:
    language, detector = splitter
    for sentences in TEXTS[language]:
        assert detector.sentences(" ".join(sentences)) == sentences
        long = [*sentences[:2]] * 200  # longer than MiniSBD reads at once
        assert detector.sentences("  ".join(long)) == long
    for sentences, between in IN_EVERY_SCRIPT:
        assert detector.sentences(between.join(sentences)) == sentences


def test_after_an_abbreviation_and_no_other_word_the_sentence_goes_on(splitter: tuple[str, Any]) -> None:
    language, detector = splitter
    known = {*known_abbreviations(language, [])}
    for word in sorted(known | {"x" * count + word for word in known for count in (1, 3)}):
        sentences = [f"Aa {word}. Aa."] if word in known else [f"Aa {word}.", "Aa."]
        assert detector.sentences(" ".join(sentences)) == sentences, word


def test_abbreviations_are_those_of_the_language() -> None:
    assert {"Mr", "Dr", "etc"} <= {*known_abbreviations("en", [])}
    assert "bzw" in known_abbreviations("de", [])
    assert "Prof" in known_abbreviations("en", ["Prof", "cat"])
    assert "cat" not in known_abbreviations("en", ["Prof", "cat"])
