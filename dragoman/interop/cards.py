"""Model cards of exported folders: what they are, how to run them, and that they were proved."""

from __future__ import annotations

import json

from dragoman.checkpoint import ModelFolder
from dragoman.interop.parity import Parity
from dragoman.text.subword import LIST_FILE, TARGET_LIST_FILE, Vocabulary

_CTRANSLATE2 = """import ctranslate2
import sentencepiece

source = sentencepiece.SentencePieceProcessor(model_file="{source}")
target = sentencepiece.SentencePieceProcessor(model_file="{target}")
translator = ctranslate2.Translator("."){cut}
lines = ["…"]
results = translator.translate_batch({pieces}, beam_size=4, length_penalty=0.6)
print([target.decode(result.hypotheses[0]) for result in results])"""
_HUGGINGFACE = """from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer, model = AutoTokenizer.from_pretrained("."), AutoModelForSeq2SeqLM.from_pretrained(".")
batch = tokenizer(["…"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))"""
_ARGOS = """import argostranslate.package
import argostranslate.translate

argostranslate.package.install_from_path("{package}.argosmodel")
print(argostranslate.translate.translate("…", "{from_code}", "{to_code}"))"""
_ONNX = """{head}import numpy as np
import onnxruntime
import sentencepiece

source = sentencepiece.SentencePieceProcessor(model_file="{source}")
target = sentencepiece.SentencePieceProcessor(model_file="{target}")
encoder, decoder = (onnxruntime.InferenceSession(f"{{name}}.onnx") for name in ("encoder", "decoder")){cut}{lists}
ids = np.array([[*{ids}, 3]])  # 3 is </s>
keys, values = encoder.run(None, {{"source": ids}})
past, tokens = [keys[:, :, :, :0], values[:, :, :, :0]], [2]  # 2 is <s>
while tokens[-1] != 3 and len(tokens) < 100:
    last, position = np.array(tokens[-1:]), np.array([len(tokens) - 1])
    inputs = [ids, last, position, keys, values, *past]
    logits, *past = decoder.run(None, {{node.name: x for node, x in zip(decoder.get_inputs(), inputs)}})
    tokens.append(int(logits[0].argmax()))
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
    "head": "import json\n\n",
    "cut": """


def cut(line):  # a tag such as >>fra<< is one subword
    tag, mark, text = line.partition("<<") if line.startswith(">>") else ("", "", line)
    return [tag + mark] * bool(tag) + source.encode(text, out_type=str)

""",
    "pieces": "[cut(line) for line in lines]",
    "ids": '[numbers.get(piece, 1) for piece in cut("…")]',
    "token": "written[token]",
}
_LISTS = """
read, written = (json.load(open(name, encoding="utf-8")) for name in ({lists}))
numbers = {{piece: number for number, piece in enumerate(read)}}"""
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
    "argos": "argostranslate",
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
    code = _CODE[target].format(package=package, from_code=codes[0], to_code=codes[1], **_subwords(loaded.vocabulary))
    proof = "".join(f"- {line.strip()}\n" for line in parity.lines())
    return (
        f"---\nlanguage:\n- {json.dumps(codes[0])}\n- {json.dumps(codes[1])}\npipeline_tag: translation\n"
        f"library_name: {_LIBRARIES[target]}\ntags:\n- translation\n- dragoman\n---\n# {codes[0]} → {codes[1]}\n\n"
        f"{loaded.in_a_sentence()} Exported for {_NAMES[target]}, its weights in {quantization}. "
        f"With `pip install {_NEEDED[target]}`, in this folder:\n\n```python\n{code}\n```\n\n"
        f"It takes one sentence at a time, of at most {loaded.model.config.max_length - 1:,} subwords.\n\n"
        f"## Proof\n\nBefore the export was written, it (*there*) and the model it was made from (*here*) translated "
        f"the same sentences, without a length penalty. Where weights are rounded, some translations differ.\n\n"
        f"{proof}\n## The model\n\n{loaded.table_of_facts()}"
    )


def _subwords(vocabulary: Vocabulary) -> dict[str, str]:
    """How a program comes from text to subwords and back."""
    files = vocabulary.files()
    source, target = ("sentencepiece.model",) * 2 if vocabulary.joint else ("source.spm", "target.spm")
    names = {"source": source, "target": target}
    if LIST_FILE not in files:
        return names | _OWN_NUMBERS
    lists = [LIST_FILE, TARGET_LIST_FILE if TARGET_LIST_FILE in files else LIST_FILE]
    return names | _LISTED | {"lists": _LISTS.format(lists=", ".join(map(json.dumps, lists)))}
