"""Exported subword models read characters as Dragoman does: by rules of their own, which any program follows."""

import io
import tempfile
from pathlib import Path
from unicodedata import category, normalize

from sentencepiece import SentencePieceNormalizer, SentencePieceTrainer
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from dragoman.text.subwords import ALIKE, SubwordModel, Vocabulary


def with_rules(vocabulary: Vocabulary, folder: Path) -> Vocabulary:
    """The vocabulary whose source model makes of each character what SubwordModel.readable makes of it.

    A model with a normalisation of its own stays as it is. The folder has a file for a moment.
    """
    subwords = vocabulary.source
    proto, compiled = ModelProto.FromString(subwords.serialized), io.BytesIO()
    if proto.normalizer_spec.precompiled_charsmap:
        return vocabulary
    read = {form: subwords.readable(form) for form in _forms()}
    known = {form: text for form, text in read.items() if form != text and not subwords.unknown_characters([text])[0]}
    with tempfile.TemporaryDirectory(dir=folder) as place:
        rules = Path(place, "rules.tsv")
        rules.write_text("".join(f"{_code_points(form)}\t{_code_points(text)}\n" for form, text in known.items()))
        only_rules = {"model_type": "char", "vocab_size": 4, "hard_vocab_limit": False, "minloglevel": 2}
        SentencePieceTrainer.train(
            sentence_iterator=iter(["a"]), model_writer=compiled, normalization_rule_tsv=str(rules), **only_rules
        )
    spec = ModelProto.FromString(compiled.getvalue()).normalizer_spec
    proto.normalizer_spec.precompiled_charsmap = spec.precompiled_charsmap
    listed = None if subwords.has_own_ids else subwords.listed
    source = type(subwords)(proto.SerializeToString(), listed=listed)
    return Vocabulary(source, source if vocabulary.joint else vocabulary.target)


def rules_of(subwords: SubwordModel) -> dict[str, str]:
    """What a model replaces before it cuts a text, and by what; letters with accents after them before single ones."""
    normalizer = SentencePieceNormalizer(model_proto=subwords.serialized)
    return {form: text for form in _forms() if (text := str(normalizer.normalize(form))) != form}


def _forms() -> list[str]:
    """What can be read as other characters; of accented ones also letters with accents after them; longest first."""
    characters = [c for c in map(chr, range(0x80, 0x10000)) if normalize("NFKD", c) != c or category(c) == "Cf"]
    forms = {*characters, *"".join(ALIKE), *(normalize("NFD", character) for character in characters)}
    return sorted(forms, key=lambda form: (-len(form), form))


def _code_points(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)
