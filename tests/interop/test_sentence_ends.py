"""The splitter of an Argos package, run as Argos runs it: by MiniSBD."""

import pytest

from dragoman.interop.sentence_ends import build_splitter, known_abbreviations

minisbd = pytest.importorskip("minisbd", reason="needs minisbd: pip install 'dragoman[dev]'")
pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'dragoman[argos]'")

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
    "ru": [["Как дела?", "Хорошо.", "А. С. Пушкин жил тут."]],
    "hi": [["क्या हाल है?", "मैं ठीक हूँ।", "तुम कैसे हो?"]],
}


@pytest.fixture(scope="module", params=[*TEXTS, "zh"])
def splitter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, object]:
    path = tmp_path_factory.mktemp("splitter") / "splitter.onnx"
    path.write_bytes(build_splitter(request.param, []))
    return request.param, minisbd.SBDetect(str(path), use_gpu=False)


def test_sentences_are_found(splitter: tuple[str, object]) -> None:
    language, detector = splitter
    for sentences in TEXTS.get(language, []):
        assert detector.sentences(" ".join(sentences)) == sentences  # type: ignore[attr-defined]
        long = [*sentences[:2]] * 200  # longer than MiniSBD reads at once
        assert detector.sentences("  ".join(long)) == long  # type: ignore[attr-defined]
    if language == "zh":
        text = ["他说：“你好。”", "我走了！", "真的？", "「はい。」", "と言った。"]
        assert detector.sentences("".join(text)) == text  # type: ignore[attr-defined]


def test_abbreviations_are_those_of_the_language() -> None:
    assert {"Mr", "Dr", "etc"} <= {*known_abbreviations("en", [])}
    assert "bzw" in known_abbreviations("de", [])
    assert "Prof" in known_abbreviations("en", ["Prof", "cat"])
    assert "cat" not in known_abbreviations("en", ["Prof", "cat"])
