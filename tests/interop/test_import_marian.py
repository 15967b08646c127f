"""Import of Marian folders: they translate here as they do with transformers, and what cannot be imported says why."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, PAD, UNK, DragomanError
from dragoman.folder import IMPORTED_FACT, LONGEST_FACT, TEXT_FACT, describe
from dragoman.inference.engine import Engine
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.interop import huggingface
from dragoman.interop.import_marian import ImportedModel, read_marian
from dragoman.interop.parity import Parity, Sample, prove
from tests.marian_folders import TAG, opus
from tests.small_models import LINES, small_model

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'dragoman[huggingface]'")
BIAS = "model.encoder.layers.0.fc1.bias"


def compare(folder: Path, imported: ImportedModel, lines: list[str]) -> Parity:
    backend = huggingface.HuggingFaceBackend(folder, imported.rows, imported.absent)
    return prove(imported.loaded, backend, Sample(lines, None, "lines"))


def change_tensors(folder: Path, **tensors: torch.Tensor | None) -> None:
    path = folder / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    for name, tensor in tensors.items():
        weights.pop(name, None)
        if tensor is not None:
            weights[name] = tensor
    safetensors.torch.save_file(weights, path, metadata={"format": "pt"})


def change_settings(path: Path, **changes: Any) -> None:
    """Change a JSON file; "gone" removes a key."""
    content = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in (content | changes).items() if v != "gone"}))


# ---- what is imported


@pytest.mark.parametrize(
    ("separate", "changes"), [(False, {"scale_embedding": False}), (True, {"tie_word_embeddings": False})]
)
def test_probabilities_are_those_of_transformers(separate: bool, changes: dict[str, Any], tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus", separate, **changes)
    imported = read_marian(folder)
    engine = Engine(imported.loaded.model, torch.device("cpu"), autocast=False)
    source, target = [10, 50, 7, EOS], [9, 33, 60, EOS]
    ours = engine.logits([source], [target])[0].log_softmax(dim=-1)
    rows = [torch.tensor(numbers) for numbers in imported.rows]
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    start = torch.tensor([model.config.decoder_start_token_id])
    with torch.no_grad():
        decoder_input = torch.cat((start, rows[1][target[:-1]]))
        theirs = model(input_ids=rows[0][source][None], decoder_input_ids=decoder_input[None])
    theirs.logits[:, :, model.config.pad_token_id] = -math.inf  # transformers added this row
    known = torch.tensor([number for number in range(len(rows[1])) if number not in (PAD, BOS)])
    expected = theirs.logits[0].log_softmax(dim=-1)[:, rows[1][known]]
    torch.testing.assert_close(ours[:, known], expected, atol=1e-4, rtol=1e-4)
    assert imported.absent == [PAD, BOS]
    assert ours[:, [PAD, BOS]].max() < -50


@pytest.mark.parametrize("separate", [False, True])
def test_it_translates_as_transformers_does(separate: bool, tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus", separate)
    lines = LINES[:10] if separate else [*LINES[:8], f"{TAG} {LINES[3]}", f"{TAG}{LINES[4]}"]
    parity = compare(folder, read_marian(folder), lines)
    assert parity.passed, parity
    assert parity.identical == {"1": 10, "4": 10}
    assert parity.tokenized_alike


def test_a_model_that_would_write_the_unknown_symbol_is_imported(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    bias = safetensors.torch.load_file(folder / "model.safetensors")["final_logits_bias"]
    bias[0, 1] = 8.0
    change_tensors(folder, final_logits_bias=bias)
    model, imported, lines = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder), read_marian(folder), LINES[1:7]
    sources = [[*ids, EOS] for ids in imported.loaded.vocabulary.source.encode(lines)]
    rows = [torch.tensor([[imported.rows[0][i] for i in ids]]) for ids in sources]
    written = [model.generate(row, num_beams=1, max_length=40)[0] for row in rows]
    assert any(1 in ids for ids in written), "transformers by itself writes <unk>"
    parity = compare(folder, imported, lines)
    assert parity.passed, parity
    for beam, same in parity.identical.items():
        assert same + parity.endless[beam] == len(lines)
    assert max(parity.endless.values()) < len(lines)


def test_the_model_folder_keeps_everything(tmp_path: Path) -> None:
    imported = read_marian(opus(tmp_path / "opus"))
    imported.loaded.save(tmp_path / "model")
    again = Translator(ModelFolder.load(tmp_path / "model"))
    lines = [LINES[2], f"{TAG} {LINES[3]}", " ".join(LINES[:9])]
    assert again.translate(lines) == Translator(imported.loaded).translate(lines)
    assert (tmp_path / "model" / "vocabulary.json").is_file()
    assert again.direction.facts == {IMPORTED_FACT: "opus"}
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


def test_facts_come_along_unless_the_weights_were_changed_elsewhere(tmp_path: Path) -> None:
    facts = {"validation": {"bleu": 31.5}, "steps": 900, TEXT_FACT: "abc", LONGEST_FACT: 30}
    loaded = small_model().with_facts(facts)
    huggingface.write_model(loaded, tmp_path)
    described = describe(loaded.direction, loaded.model.config, "huggingface", tmp_path)
    (tmp_path / "dragoman.json").write_bytes(described)
    assert read_marian(tmp_path).loaded.direction == loaded.direction
    change_tensors(tmp_path, **{BIAS: torch.zeros(64)})
    again = read_marian(tmp_path).loaded.direction
    assert (again.source, again.target) == ("en", "ne")
    assert again.facts == {IMPORTED_FACT: tmp_path.name}


def test_special_symbols_keep_their_meaning(tmp_path: Path) -> None:
    imported = read_marian(opus(tmp_path / "opus", zero=True))
    numbers = json.loads((tmp_path / "opus" / "vocab.json").read_text())
    rows = imported.rows[0]
    assert (rows[PAD], rows[UNK], rows[BOS], rows[EOS]) == (-1, 1, numbers["<pad>"], 0)
    embedding = imported.loaded.model.target_embedding.weight
    assert embedding[BOS].abs().max() == 0, "Marian begins with a zero embedding"
    listed = imported.loaded.vocabulary.source.pieces(range(len(rows)))
    assert all(numbers[piece] == row for piece, row in list(zip(listed, rows, strict=True))[4:])


def test_settings_of_the_search_in_the_folder_do_not_count(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    change_settings(folder / "generation_config.json", no_repeat_ngram_size=1, repetition_penalty=3.0, num_beams=2)
    assert compare(folder, read_marian(folder), LINES[:5]).passed


def test_a_folder_that_transformers_saved_is_read(tmp_path: Path) -> None:
    """As docs/exports.md says."""
    name, folder = str(opus(tmp_path / "hub")), str(tmp_path / "opus")
    transformers.MarianMTModel.from_pretrained(name).save_pretrained(folder)
    transformers.MarianTokenizer.from_pretrained(name).save_pretrained(folder)
    there, here = (Translator(read_marian(Path(place)).loaded) for place in (name, folder))
    assert [t.text for t in here.translate(LINES[:5])] == [t.text for t in there.translate(LINES[:5])]


# ---- what is refused


@pytest.mark.parametrize(
    ("name", "changes"), [("config.json", {"dtype": "floatx"}), ("tokenizer_config.json", {"model_max_length": "long"})]
)
def test_what_transformers_can_not_load_is_one_sentence(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    """transformers raises errors of many kinds, some of them only when it cuts text."""
    folder = opus(tmp_path / "opus")
    imported = read_marian(folder)
    change_settings(folder / name, **changes)
    with pytest.raises(DragomanError, match="transformers can't") as refusal:
        huggingface.HuggingFaceBackend(folder, imported.rows, imported.absent)
    assert "\n" not in str(refusal.value)


def test_a_folder_does_not_choose_what_computes(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    change_settings(folder / "config.json", attn_implementation="sdpa")
    imported = read_marian(folder)
    backend = huggingface.HuggingFaceBackend(folder, imported.rows, imported.absent)
    assert backend._model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({BIAS: torch.zeros(63)}, r"feed_forward\.inner\.bias is missing, damaged, or of another model"),
        ({BIAS.replace("layers.0", "layers.9"): torch.zeros(64)}, r"layers\.9\.feed_forward\.inner\.bias is missing"),
        ({"model.encoder.layers.0.fc3.bias": torch.zeros(64)}, r"fc3\.bias is unknown to Marian"),
        ({"model.shared.weight": None}, r"model\.shared\.weight is missing"),
        ({"model.shared.weight": torch.zeros(5, 32)}, r"an embedding is \(5, 32\)"),
        ({"final_logits_bias": torch.zeros(1, 7)}, r"an embedding is \(7,\)"),
    ],
)
def test_unfit_tensors_are_refused(tensors: dict[str, torch.Tensor | None], message: str, tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    change_tensors(folder, **tensors)
    with pytest.raises(DragomanError, match=message):
        read_marian(folder)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("config.json", {"model_type": "bart"}, "bart; only Marian models"),
        ("config.json", {"activation_function": "gelu_new"}, "gelu_new"),
        ("config.json", {"encoder_layers": 3}, r"encoder\.layers\.2\.\S+ is missing"),
        ("config.json", {"d_model": "gone"}, "d_model is missing"),
        ("config.json", {"eos_token_id": "x"}, "do not fit together"),
        ("config.json", {"decoder_start_token_id": 10**6}, "an embedding is"),
        ("config.json", {"max_position_embeddings": 10**30}, "max_length must be"),
        ("config.json", {"transformers_weights": "adapter_model.bin"}, "has transformers_weights"),
        ("config.json", {"auto_map": {"AutoModel": "evil.Model"}}, "has auto_map"),
        ("config.json", {"_attn_implementation": "nobody/kernels"}, "has _attn_implementation"),
        ("vocab.json", {"<unk>": "gone"}, "from 0 on"),
        ("vocab.json", {"▁new": "x"}, "do not fit together"),
        ("tokenizer_config.json", {"source_lang": None}, "--source and --target"),
        ("tokenizer_config.json", {"source_lang": "x'); print('y"}, "is no language code"),
    ],
)
def test_settings_that_do_not_fit_are_refused(name: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    change_settings(folder / name, **changes)
    with pytest.raises(DragomanError, match=message):
        read_marian(folder)


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "target.spm", "model.safetensors"])
@pytest.mark.parametrize("content", [None, b"\x80\x04damaged"])
def test_missing_and_damaged_files_are_one_sentence(name: str, content: bytes | None, tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(DragomanError, match=name):
        read_marian(folder)


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    folder = opus(tmp_path / "opus")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(DragomanError, match="pickled weights"):
        read_marian(folder)
