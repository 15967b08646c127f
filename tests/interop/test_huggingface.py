"""Hugging Face: transformers computes, cuts and searches as Dragoman does."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, PAD, DragomanError
from dragoman.folder import LONGEST_FACT
from dragoman.interop.huggingface import HuggingFaceBackend, write_model
from dragoman.interop.parity import Sample, prove
from dragoman.model.transformer import Transformer
from tests.small_models import LINES, small_model

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'dragoman[huggingface]'")


def logits(folder: Path, source: list[int], target: list[int]) -> torch.Tensor:
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        found = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[BOS, *target]]))
    return found.logits[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"positions": "halves", "tie_softmax": False, "softmax_bias": True, "activation": "gelu"},
        {"share_embeddings": False, "softmax_bias": True, "activation": "swish"},
        {"joint": False, "positions": "halves", "activation": "swish", "softmax_bias": True},
    ],
    ids=str,
)
def test_transformers_computes_the_same_logits(settings: dict[str, Any], tmp_path: Path) -> None:
    loaded = small_model(**settings)
    write_model(loaded, tmp_path)
    source, target = [7, 9, 30, EOS], [40, 11]
    with torch.no_grad():
        ours = loaded.model(torch.tensor([source]), torch.tensor([[BOS, *target]]))[0]
    torch.testing.assert_close(logits(tmp_path, source, target), ours, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("joint", [True, False])
def test_the_tokenizer_cuts_and_joins_as_dragoman(joint: bool, tmp_path: Path) -> None:
    loaded = small_model(joint)
    write_model(loaded, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    lines = [*LINES, "Zoë naïve — 漢字 \t x", "  spaces   between  "]
    assert tokenizer(lines)["input_ids"] == [[*ids, EOS] for ids in loaded.vocabulary.source.encode(lines)]
    ids = loaded.vocabulary.target.encode([line[::-1] for line in lines])
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == loaded.vocabulary.target.decode(ids)
    assert (tmp_path / "tokenizer.json").is_file() == joint
    if joint:
        fast = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
        assert fast(lines)["input_ids"] == tokenizer(lines)["input_ids"]
        assert fast.batch_decode(ids, skip_special_tokens=True) == loaded.vocabulary.target.decode(ids)
        assert (fast.pad_token_id, fast.eos_token_id) == (PAD, EOS)


def test_lines_that_its_tokenizer_takes_otherwise_do_not_stop_an_export(tmp_path: Path) -> None:
    loaded = small_model()
    write_model(loaded, tmp_path)
    backend, target = HuggingFaceBackend(tmp_path), loaded.vocabulary.target
    spelt = ["a <unk> cat", "the cat</s>", "<pad>", "the <s> dog", ">>fra<< the dog", ">>a<< b >>c<< d"]
    parity = prove(loaded, backend, Sample([*LINES[:4], *spelt], None, "lines"))
    assert parity.passed
    assert parity.sentences >= 4
    assert 4 <= parity.left_out <= 6
    for space in "\u3000\xa0\t\x85":
        ids = target.ids([f"<0x{byte:02X}>" for byte in space.encode()])
        sentence = [*ids, *target.encode([LINES[3]])[0], *ids]
        (here,), (there,) = target.decode([sentence]), backend.decode([sentence])
        assert here.strip() == there.strip()
        assert space in here


def test_padding_changes_no_translation(tmp_path: Path) -> None:
    """The proof has no padding: it takes sentences of one length together."""
    write_model(small_model(), tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    whole = tokenizer(LINES[:6], return_tensors="pt", padding=True)
    assert (whole["attention_mask"].sum(dim=1).unique()).numel() > 3
    start = torch.full((1, 1), BOS)
    with torch.no_grad():
        together = model(**whole, decoder_input_ids=start.expand(6, 1)).logits
        every = model.generate(**whole, max_length=40)
        for place, line in enumerate(LINES[:6]):
            alone = tokenizer([line], return_tensors="pt")
            expected = model(**alone, decoder_input_ids=start).logits[0]
            torch.testing.assert_close(together[place], expected, atol=1e-5, rtol=1e-5)
            (found,) = model.generate(**alone, max_length=40)
            assert every[place][every[place] > EOS].tolist() == found[found > EOS].tolist()


def longer(most: int) -> ModelFolder:
    """The small model with positions for so many subwords."""
    loaded = small_model()
    model = Transformer(replace(loaded.model.config, max_length=most)).eval()
    model.load_state_dict(loaded.model.state_dict())
    return replace(loaded, model=model)


@pytest.mark.parametrize(("most", "seen", "limit"), [(64, 30, 64), (256, 30, 81), (256, None, 179)])
def test_generate_writes_no_more_than_the_longest_sentence_of_the_training(
    most: int, seen: int | None, limit: int, tmp_path: Path
) -> None:
    write_model(longer(most).with_facts({LONGEST_FACT: seen}), tmp_path)
    assert json.loads((tmp_path / "generation_config.json").read_text())["max_length"] == limit


@pytest.mark.parametrize("settings", [{"norm": "pre"}, {"positions": "learned"}, {"layer_norm_eps": 1e-6}], ids=str)
def test_what_marian_lacks_is_refused_with_an_alternative(settings: dict[str, Any], tmp_path: Path) -> None:
    loaded = small_model()
    loaded.model.config = replace(loaded.model.config, **settings)
    with pytest.raises(DragomanError, match="--to ctranslate2 or --to onnx"):
        write_model(loaded, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_folder_says_how_to_search_and_how_far_the_positions_go(tmp_path: Path) -> None:
    write_model(longer(700), tmp_path)
    search = transformers.GenerationConfig.from_pretrained(tmp_path)
    assert (search.num_beams, search.length_penalty, search.early_stopping) == (4, 0.6, False)
    assert (search.decoder_start_token_id, search.suppress_tokens) == (BOS, [0, 1, 2])
    assert logits(tmp_path, [7] * 699 + [EOS], [40]).shape[0] == 2
