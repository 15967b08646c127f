from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from dragoman.checkpoint import IMPORTED_FACT, LONGEST_FACT, TEXT_FACT, ModelFolder
from dragoman.config import BOS, EOS, PAD, UNK, ConfigError, DragomanError
from dragoman.exported import describe
from dragoman.inference.engine import Engine
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.interop import huggingface
from dragoman.interop import import_marian as arrival_module
from dragoman.interop.backends import HuggingFaceSide
from dragoman.interop.import_marian import read_marian
from dragoman.interop.parity import Sample, prove
from tests.marian_folders import TAG, opus
from tests.small_models import LINES, small_model

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'dragoman[huggingface]'")


def forced(folder: Path, source: list[int], target: list[int]) -> torch.Tensor:
    """transformers' log-probabilities (T, V) along a target, all by Marian's numbers; <pad>, the last one, has none."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    start = model.config.decoder_start_token_id
    with torch.no_grad():
        found = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[start, *target[:-1]]]))
    found.logits[:, :, model.config.pad_token_id] = -math.inf
    return found.logits[0].log_softmax(dim=-1)  # type: ignore[no-any-return]


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize(
    "changes", [{}, {"scale_embedding": False}, {"tie_word_embeddings": False}, {"activation_function": "relu"}]
)
def test_probabilities_are_those_of_transformers(separate: bool, changes: dict[str, Any], tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus", separate, **changes)
    arrival = read_marian(folder)
    engine = Engine(arrival.loaded.model, torch.device("cpu"), autocast=False)
    source, target = [10, 50, 7, EOS], [9, 33, 60, EOS]
    ours = engine.logits([source], [target])[0].log_softmax(dim=-1)
    rows = [torch.tensor(side) for side in arrival.rows]
    theirs = forced(folder, rows[0][source].tolist(), rows[1][target].tolist())
    known = torch.tensor([number for number in range(len(rows[1])) if number not in (PAD, BOS)])
    torch.testing.assert_close(ours[:, known], theirs[:, rows[1][known]], atol=1e-4, rtol=1e-4)
    assert arrival.absent == [PAD, BOS]
    assert ours[:, [PAD, BOS]].max() < -50


@pytest.mark.parametrize("separate", [False, True])
def test_it_translates_as_transformers_does(separate: bool, tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus", separate)
    arrival = read_marian(folder)
    lines = LINES[:10] if separate else [*LINES[:8], f"{TAG} {LINES[3]}", f"{TAG}{LINES[4]}"]
    engine = Engine(arrival.loaded.model, torch.device("cpu"), autocast=False)
    side = HuggingFaceSide(folder, arrival.rows, arrival.absent)
    parity = prove(engine, arrival.loaded.vocabulary, side, Sample(lines, None, "lines"), "fr")
    assert parity.passed, parity
    assert parity.identical == {"1": 10, "4": 10}
    assert parity.tokenized_alike


def test_a_model_that_would_write_the_unknown_symbol_is_imported(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    bias = safetensors.torch.load_file(folder / "model.safetensors")["final_logits_bias"]
    bias[0, 1] = 8.0
    changed(folder, final_logits_bias=bias)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    arrival = read_marian(folder)
    lines, vocabulary = LINES[1:11], arrival.loaded.vocabulary
    sources = [[*ids, EOS] for ids in vocabulary.source.encode(lines)]
    rows = [torch.tensor([[arrival.rows[0][i] for i in ids]]) for ids in sources]
    written = [model.generate(row, num_beams=1, max_length=40)[0] for row in rows]
    assert any(1 in ids for ids in written), "transformers by itself writes <unk>"
    engine = Engine(arrival.loaded.model, torch.device("cpu"), autocast=False)
    side = HuggingFaceSide(folder, arrival.rows, arrival.absent)
    parity = prove(engine, vocabulary, side, Sample(lines, None, "lines"), "fr")
    assert parity.passed, parity
    for beam, same in parity.identical.items():
        assert same + parity.endless[beam] == len(lines)
    assert max(parity.endless.values()) < len(lines)


def test_the_model_folder_keeps_everything(tmp_path: Path) -> None:
    arrival = read_marian(opus(tmp_path / "opus"))
    arrival.loaded.save(tmp_path / "model")
    again = Translator(ModelFolder.load(tmp_path / "model"))
    lines = [LINES[2], f"{TAG} {LINES[3]}", " ".join(LINES[:9])]
    assert again.translate(lines) == Translator(arrival.loaded).translate(lines)
    assert (tmp_path / "model" / "vocabulary.json").is_file()
    assert again.direction.facts["imported from"] == "opus"
    inspection = inspect(again, f"{TAG} {LINES[3]}")
    assert inspection.source_pieces[0] == TAG
    assert inspection.target == again.translate([f"{TAG} {LINES[3]}"])[0].text


def test_every_part_of_a_long_line_gets_its_tag(tmp_path: Path) -> None:
    translator = Translator(read_marian(opus(tmp_path / "opus")).loaded)
    sentence = LINES[8].capitalize() + "."
    whole = translator.translate([f"{TAG} " + " ".join([sentence] * 12)])[0]
    (tag,) = translator.vocabulary.source.ids([TAG])
    assert len(whole.parts) > 1
    for part in whole.parts:
        assert translator.vocabulary.source.encode([part.source])[0][0] == tag


def test_there_and_back_is_the_same_model(tmp_path: Path) -> None:
    loaded = small_model()
    huggingface.write_model(loaded, tmp_path)
    back = read_marian(tmp_path).loaded
    assert back.vocabulary.joint
    assert back.vocabulary.source.serialized == loaded.vocabulary.source.serialized
    assert back.model.config.softmax_bias is False
    assert back.model.config.tie_softmax
    assert back.model.config.share_embeddings
    source, target = torch.tensor([[7, 9, 30, EOS]]), torch.tensor([[BOS, 40, 11]])
    with torch.no_grad():
        torch.testing.assert_close(back.model(source, target), loaded.model(source, target), atol=1e-4, rtol=0)
    texts = [[t.text for t in Translator(model).translate(LINES)] for model in (back, loaded)]
    assert texts[0] == texts[1]


def test_weights_that_were_changed_elsewhere_lose_what_was_known_of_the_old_ones(tmp_path: Path) -> None:
    facts = {"validation": {"bleu": 31.5}, "steps": 900, TEXT_FACT: "abc", LONGEST_FACT: 30}
    loaded = small_model().with_facts(facts)
    huggingface.write_model(loaded, tmp_path)
    described = describe(loaded, "huggingface", [tmp_path / "model.safetensors"])
    (tmp_path / "dragoman.json").write_bytes(described)
    assert read_marian(tmp_path).loaded.direction == loaded.direction
    changed(tmp_path, **{BIAS: torch.zeros(64)})
    again = read_marian(tmp_path).loaded.direction
    assert (again.source, again.target) == ("en", "ne")
    assert again.facts == {IMPORTED_FACT: tmp_path.name, LONGEST_FACT: 30}
    (tmp_path / "dragoman.json").write_bytes(describe(loaded, "huggingface"))
    assert read_marian(tmp_path).loaded.direction == again, "where nothing tells"


def test_special_symbols_keep_their_meaning(tmp_path: Path) -> None:
    arrival = read_marian(opus(tmp_path / "opus", zero=True))
    numbers = json.loads((tmp_path / "opus" / "vocab.json").read_text())
    rows = arrival.rows[0]
    assert (rows[PAD], rows[UNK], rows[BOS], rows[EOS]) == (-1, 1, numbers["<pad>"], 0)
    model = arrival.loaded.model
    assert model.target_embedding.weight[BOS].abs().max() == 0, "Marian begins with a zero embedding"
    listed = arrival.loaded.vocabulary.source.pieces(range(len(rows)))
    assert all(numbers[piece] == row for piece, row in list(zip(listed, rows, strict=True))[4:])


def test_padding_of_the_target_has_a_number_of_its_own(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus", separate=True)
    settings = json.loads((folder / "config.json").read_text())
    numbers = {"</s>": 0, "<unk>": 1, "a": 2, "b": 3, "<pad>": 4}
    side = arrival_module._arrange(numbers, settings | {"pad_token_id": 2, "decoder_start_token_id": 4}, folder)
    assert side.rows == [-1, 1, 4, 0, 2, 3]
    assert side.absent == [PAD, BOS]


def test_a_folders_own_habits_of_search_do_not_count(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    rewrite(folder / "generation_config.json", no_repeat_ngram_size=1, repetition_penalty=3.0, num_beams=2)
    arrival = read_marian(folder)
    engine = Engine(arrival.loaded.model, torch.device("cpu"), autocast=False)
    side = HuggingFaceSide(folder, arrival.rows, arrival.absent)
    assert prove(engine, arrival.loaded.vocabulary, side, Sample(LINES[:5], None, "lines"), "fr").passed


@pytest.mark.parametrize("broken", ["tokenizer_config.json", "config.json"])
def test_what_transformers_can_not_load_is_one_sentence(broken: str, tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    arrival = read_marian(folder)
    (folder / broken).write_text("{")
    with pytest.raises(DragomanError, match="transformers can't load it"):
        HuggingFaceSide(folder, arrival.rows, arrival.absent)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("config.json", {"use_cache": "yes"}),
        ("config.json", {"id2label": 3}),
        ("config.json", {"dtype": "floatx"}),
        ("tokenizer_config.json", {"added_tokens_decoder": "x"}),
        ("tokenizer_config.json", {"model_max_length": "long"}),
        ("tokenizer_config.json", {"tokenizer_class": "EsmTokenizer"}),
    ],
)
def test_damaged_settings_are_one_sentence(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    """transformers raises errors of many kinds, some of them only when it cuts text."""
    folder = opus(tmp_path / "opus")
    arrival = read_marian(folder)
    rewrite(folder / name, **changes)
    with pytest.raises(DragomanError, match="transformers can't") as refusal:
        HuggingFaceSide(folder, arrival.rows, arrival.absent).encode(LINES[:3])
    assert "\n" not in str(refusal.value)


def test_a_folder_does_not_choose_what_computes(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    rewrite(folder / "config.json", attn_implementation="sdpa")
    arrival = read_marian(folder)
    side = HuggingFaceSide(folder, arrival.rows, arrival.absent)
    assert side._model.config._attn_implementation == "eager"
    for name in ("attn_implementation", "_attn_implementation", "_attn_implementation_internal"):
        rewrite(folder / "config.json", **{name: "nobody/kernels"})
        with pytest.raises(DragomanError, match=f"has {name}"):
            read_marian(folder)
        rewrite(folder / "config.json", **{name: "gone"})


def changed(folder: Path, **tensors: torch.Tensor | None) -> None:
    path = folder / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    for name, tensor in tensors.items():
        weights.pop(name, None)
        if tensor is not None:
            weights[name] = tensor
    safetensors.torch.save_file(weights, path, metadata={"format": "pt"})


BIAS = "model.encoder.layers.0.fc1.bias"


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({BIAS: None}, r"model\.encoder\.layers\.0\.fc1\.bias is missing"),
        ({BIAS: torch.zeros(63)}, r"model\.encoder\.layers\.0\.fc1\.bias is \(63,\), not \(64,\)"),
        ({BIAS: torch.full((64,), math.nan)}, r"model\.encoder\.layers\.0\.fc1\.bias has values that are no numbers"),
        ({BIAS.replace("layers.0", "layers.9"): torch.zeros(64)}, r"layers\.9\.fc1\.bias belongs to no layer"),
        ({"model.encoder.layers.0.fc3.bias": torch.zeros(64)}, r"fc3\.bias is unknown to Marian"),
        ({"model.shared.weight": None}, r"model\.shared\.weight is missing"),
        ({"model.shared.weight": torch.zeros(5, 32)}, r"an embedding is \(5, 32\)"),
        ({"final_logits_bias": torch.zeros(1, 7)}, "final_logits_bias"),
        ({"model.encoder.embed_positions.weight": torch.ones(64, 32)}, "no sinusoids"),
        ({"model.encoder.embed_positions.weight": torch.ones(64)}, "no sinusoids"),
        ({"model.encoder.embed_positions.weight": torch.ones(64, 31)}, "no sinusoids"),
        ({"model.shared.weight": torch.tensor(1.0)}, r"an embedding is \(\)"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    tensors: dict[str, torch.Tensor | None], message: str, tmp_path: Path
) -> None:
    folder = opus(tmp_path / "opus")
    changed(folder, **tensors)
    with pytest.raises(DragomanError, match=message):
        read_marian(folder)


def rewrite(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in (content | changes).items() if v != "gone"}))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("config.json", {"model_type": "bart"}, "a bart model"),
        ("config.json", {"model_type": "gone"}, "no model of Hugging Face's"),
        ("config.json", {"normalize_before": True}, "normalize_before"),
        ("config.json", {"activation_function": "gelu_new"}, "gelu_new"),
        ("config.json", {"decoder_ffn_dim": 128}, "differ in feed-forward"),
        ("config.json", {"encoder_layers": 3}, r"model\.encoder\.layers\.2\.fc1\S+ is missing"),
        ("config.json", {"encoder_layers": 10**9}, r"model\.encoder\.layers\.\S+ is missing"),
        ("config.json", {"vocab_size": "7"}, "vocab_size is '7' in config.json"),
        ("config.json", {"d_model": "gone"}, "d_model"),
        ("config.json", {"eos_token_id": "gone"}, "special token"),
        ("config.json", {"pad_token_id": 10**6}, "beyond"),
        ("config.json", {"vocab_size": 7}, "vocab_size is 7 in config.json, but there are"),
        ("config.json", {"decoder_vocab_size": 7}, "decoder_vocab_size is 7 in config.json, but there are"),
        ("config.json", {"max_position_embeddings": 10**12}, "beyond all memory"),
        ("config.json", {"max_position_embeddings": 10**30}, "beyond all memory"),
        ("config.json", {"encoder_ffn_dim": 10**30, "decoder_ffn_dim": 10**30}, "beyond all memory"),
        ("config.json", {"transformers_weights": "adapter_model.bin"}, "has transformers_weights"),
        ("config.json", {"auto_map": {"AutoModel": "evil.Model"}}, "has auto_map"),
        ("vocab.json", {"<unk>": "gone"}, "from 0 on"),
        ("vocab.json", {"▁new": 0}, "each once"),
        ("tokenizer_config.json", {"source_lang": None}, "--source and --target"),
        ("tokenizer_config.json", {"source_lang": "x'); print('y"}, "no language code; give the right ones with"),
    ],
)
def test_settings_that_do_not_fit_are_refused(name: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    rewrite(folder / name, **changes)
    with pytest.raises((DragomanError, ConfigError), match=message):
        read_marian(folder)


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "target.spm", "model.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"\x80\x04damaged"])
def test_missing_and_damaged_files_are_one_sentence(name: str, content: bytes | None, tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(DragomanError, match=name):
        read_marian(folder)


def test_pickled_weights_are_never_loaded(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(DragomanError, match="could run any program"):
        read_marian(folder)


def test_a_folder_that_transformers_saved_is_read(tmp_path: Path) -> None:
    """As docs/exports.md says it is to."""
    name, folder = str(opus(tmp_path / "hub")), str(tmp_path / "opus")
    transformers.MarianMTModel.from_pretrained(name).save_pretrained(folder)
    transformers.MarianTokenizer.from_pretrained(name).save_pretrained(folder)
    there, here = (Translator(read_marian(Path(place)).loaded) for place in (name, folder))
    assert [t.text for t in here.translate(LINES[:5])] == [t.text for t in there.translate(LINES[:5])]


def test_a_folder_that_is_to_be_imported_first_says_so(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    with pytest.raises(DragomanError, match=f"a marian model.*; import it first: dragoman import {folder} --out MODEL"):
        ModelFolder.load(folder)
    rewrite(folder / "config.json", model_type="bart")
    with pytest.raises(DragomanError, match=r"a bart model, not one of Dragoman's$"):
        ModelFolder.load(folder)


def test_weights_in_several_files_are_refused_with_the_cure(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    model = transformers.MarianMTModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    with pytest.raises(DragomanError, match=r"only a part of the weights; .* max_shard_size='100GB'"):
        read_marian(folder)
    model.save_pretrained(folder, max_shard_size="100GB")
    read_marian(folder)


def test_a_subword_model_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    numbers = json.loads((folder / "vocab.json").read_text())
    strange = {piece if piece.startswith("<") else f"{piece}x": number for piece, number in numbers.items()}
    (folder / "vocab.json").write_text(json.dumps(strange))
    with pytest.raises(DragomanError, match=r"source\.spm: \d+% of its subwords are in the vocabulary"):
        read_marian(folder)
