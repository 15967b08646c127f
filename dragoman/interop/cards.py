"""Model cards of exported folders: what they are, how to run them, and that they were proved."""

from __future__ import annotations

import json

from dragoman.checkpoint import ModelFolder
from dragoman.interop.argos import argos_codes
from dragoman.interop.parity import Parity
from dragoman.text.subwords import JOINT_FILE, LIST_FILE, SOURCE_FILE, TARGET_FILE, TARGET_LIST_FILE, Vocabulary

_CTRANSLATE2 = """{head}import ctranslate2
import sentencepiece

source = sentencepiece.SentencePieceProcessor(model_file={source})
target = sentencepiece.SentencePieceProcessor(model_file={target})
translator = ctranslate2.Translator("."){lists}{cut}
lines = ["…"]
pieces = {pieces}
room = min(max(map(len, pieces)) + 52, {most})  # for a translation and its end; more is running on
results = translator.translate_batch(
    pieces,
    beam_size=4,
    length_penalty=0.6,
    disable_unk=True,
    max_input_length={most},
    max_decoding_length=room,
)
print([target.decode(result.hypotheses[0]) for result in results])"""
_HUGGINGFACE = """from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer, model = AutoTokenizer.from_pretrained("."), AutoModelForSeq2SeqLM.from_pretrained(".")
lines = ["…"]
batch = tokenizer(lines, return_tensors="pt", padding=True, truncation=True)
room = min(batch["input_ids"].shape[1] + 52, {most})  # for a translation, <s> and </s>; more is running on
found = tokenizer.batch_decode(model.generate(**batch, max_length=room), skip_special_tokens=True)
print([text if line.strip() else "" for line, text in zip(lines, found)])"""
_ARGOS = """import argostranslate.package
import argostranslate.translate

argostranslate.package.install_from_path({package})
print(argostranslate.translate.translate("…", {from_code}, {to_code}))"""
_ONNX = """{head}import numpy as np
import onnxruntime
import sentencepiece

source = sentencepiece.SentencePieceProcessor(model_file={source})
target = sentencepiece.SentencePieceProcessor(model_file={target})
encoder, decoder = (onnxruntime.InferenceSession(f"{{name}}.onnx") for name in ("encoder", "decoder")){lists}{cut}
ids = np.array([[*{ids}[: {most} - 1], 3]])  # 3 is </s>
room = min(ids.size + 50, {most} - 1) if ids.size > 1 else 0  # for a translation; more is running on
keys, values = encoder.run(None, {{"source": ids}})
past, tokens = [keys[:, :, :, :0], values[:, :, :, :0]], [2]  # 2 is <s>
while tokens[-1] != 3 and len(tokens) <= room:
    last, position = np.array(tokens[-1:]), np.array([len(tokens) - 1])
    inputs = [ids, last, position, keys, values, *past]
    logits, *past = decoder.run(None, {{node.name: x for node, x in zip(decoder.get_inputs(), inputs)}})
    tokens.append(3 + int(logits[0, 3:].argmax()))  # what comes before </s> is never written
print(target.decode([{token} for token in tokens if token > 3]))"""
_OWN_NUMBERS = {
    "head": "",
    "cut": "",
    "lists": "",
    "pieces": "source.encode(lines, out_type=str)",
    "ids": 'source.encode("…")',
    "token": "token",
}
# Subwords that are numbered by a list beside the SentencePiece models, as Marian's are.
_LISTED = {
    "head": "import json\nimport re\n\n",
    "cut": r"""


def cut(line):  # a tag such as >>fra<<, where the model has it, is one subword
    tag = re.match(r">>[^<>\s]+<<", line)
    tag = tag[0] if tag and tag[0] in read else ""
    return [tag] * bool(tag) + source.encode(line.removeprefix(tag), out_type=str)

""",
    "pieces": "[cut(line) for line in lines]",
    "ids": '[numbers.get(piece, 1) for piece in cut("…")]',
    "token": "written[token]",
}
_LISTS = {
    "ctranslate2": """
read = json.load(open({read}, encoding="utf-8"))""",
    "onnx": """
read, written = (json.load(open(name, encoding="utf-8")) for name in ({read}, {written}))
numbers = {{piece: number for number, piece in enumerate(read)}}""",
}
_CODE = {"ctranslate2": _CTRANSLATE2, "huggingface": _HUGGINGFACE, "argos": _ARGOS, "onnx": _ONNX}
_LIBRARIES = {"ctranslate2": "ctranslate2", "huggingface": "transformers", "argos": "argos-translate", "onnx": "onnx"}
_NAMES = {
    "ctranslate2": "CTranslate2",
    "huggingface": "Hugging Face's transformers",
    "argos": "Argos Translate",
    "onnx": "ONNX",
}
_NEEDED = {
    "ctranslate2": "ctranslate2 sentencepiece",
    "huggingface": "transformers torch sentencepiece",
    "argos": "'argostranslate>=1.10'",
    "onnx": "onnxruntime sentencepiece",
}


def card(loaded: ModelFolder, target: str, quantization: str, parity: Parity, package: str = "") -> str:
    """README.md of an exported folder, with the front matter that model hubs read.

    Args:
        loaded: the model.
        target: ctranslate2, huggingface, argos or onnx.
        quantization: how the weights are kept.
        parity: the proof.
        package: name of the Argos package.
    """
    codes = (loaded.direction.source, loaded.direction.target)
    from_code, to_code = argos_codes(loaded) if target == "argos" else codes
    names = {"package": f"{package}.argosmodel", "from_code": from_code, "to_code": to_code}
    program = _subwords(loaded.vocabulary, target) | {name: json.dumps(text) for name, text in names.items()}
    code = _CODE[target].format(**program, most=loaded.model.config.max_length)
    most = f"of at most {loaded.model.config.max_length - 1:,} subwords"
    taken = f"one sentence at a time, {most}; what is beyond is left out."
    if target == "argos":
        taken = f"any text: Argos finds the sentences, which are to be {most}."
    proof = "".join(f"- {line.strip()}\n" for line in parity.lines())
    return (
        f"---\nlanguage:\n- {json.dumps(codes[0])}\n- {json.dumps(codes[1])}\npipeline_tag: translation\n"
        f"library_name: {_LIBRARIES[target]}\ntags:\n- translation\n- dragoman\n---\n# {codes[0]} → {codes[1]}\n\n"
        f"{loaded.in_a_sentence()} Exported for {_NAMES[target]}, its weights in {quantization}. "
        f"With `pip install {_NEEDED[target]}`, in this folder:\n\n```python\n{code}\n```\n\n"
        f"It takes {taken}\n\n"
        f"## Proof\n\nBefore the export was written, it (*there*) and the model it was made from (*here*) translated "
        f"the same sentences, without a length penalty. Where weights are rounded, some translations differ.\n\n"
        f"{proof}\n## The model\n\n{loaded.table_of_facts()}"
    )


def _subwords(vocabulary: Vocabulary, target: str) -> dict[str, str]:
    """How a program comes from text to subwords and back."""
    files = vocabulary.files()
    source, written = (JOINT_FILE,) * 2 if vocabulary.joint else (SOURCE_FILE, TARGET_FILE)
    names = {"source": json.dumps(source), "target": json.dumps(written)}
    if LIST_FILE not in files or target not in _LISTS:
        return names | _OWN_NUMBERS
    read, written = LIST_FILE, TARGET_LIST_FILE if TARGET_LIST_FILE in files else LIST_FILE
    return names | _LISTED | {"lists": _LISTS[target].format(read=json.dumps(read), written=json.dumps(written))}
