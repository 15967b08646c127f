"""The tables that compare speed with other toolkits, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]


def is_comparison(record: Record) -> bool:
    """Whether a results file compares speed."""
    return "versions" in record


def tables(record: Record) -> str:
    """Return all tables of a results file, after the versions of all toolkits."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record["versions"].items()))
    settings, result = record["settings"], record["result"]
    threads = f"{settings['threads']} threads each, " if "threads" in settings else ""
    parts = [f"{threads}{settings['repeats']} rounds; {versions}; commit {record['commit']}."]
    if "peak_tflops" in record:
        parts += _on_gpu(result, record["peak_tflops"])
    else:
        parts += _decoding(result, settings) if "ways" in result else _training(result, settings)
    return "\n\n".join(parts)


def _on_gpu(result: Record, peak: int) -> Iterable[str]:
    yield (
        f"In bf16, all with the same batches. MFU is the share of the GPU's peak, {peak:,} TFLOP/s by its data sheet, "
        f"that the model's own operations take."
    )
    head = ("", "target tokens/s", "min – max", "Dragoman is faster by a factor of", "TFLOP/s", "MFU")
    for size, found in result.items():
        speeds = found["target_tokens_per_second"]
        rows = [
            (_called(name), *_speed(row), f"{row['ratio']:.2f}", f"{row['tflops']:.0f}", f"{row['mfu']:.1%}")
            for name, row in speeds.items()
        ]
        yield f"**{size}**, batches of {found['batch_tokens']:,} tokens. {found.get('note', '')}".strip()
        yield _table(head, rows)
    yield f"A large matrix product reaches {speeds['dragoman']['product_tflops']:.0f} TFLOP/s."


def _training(result: Record, settings: Record) -> Iterable[str]:
    yield (
        f"Models have the shapes of the presets, with {settings['vocabulary']:,} joint subwords; all toolkits get the "
        f'same batches of {settings["batch_tokens"]:,} tokens. "annotated", written for this comparison, is like The '
        f"Annotated Transformer."
    )
    for size, precisions in result.items():
        for precision, found in precisions.items():
            rows = [
                (_called(name), *_speed(row), f"{row['ratio']:.2f}")
                for name, row in found["target_tokens_per_second"].items()
            ]
            (parameters,) = {row["parameters"] for row in found["target_tokens_per_second"].values()}
            yield f"**{size}, {precision}** ({parameters:,} parameters)"
            yield _table(("", "target tokens/s", "min – max", "Dragoman is faster by a factor of"), rows)
            rates = found["machine_gflops"]
            yield (
                f"Dragoman reaches {found['dragoman_share_of_machine']['median']:.1%} of the machine's rate for large "
                f"{precision} matrix products (bf16 {rates['bf16']['median']:,.0f}, "
                f"fp32 {rates['fp32']['median']:,.0f} GFLOP/s)."
            )


def is_operations(record: Record) -> bool:
    """Whether a results file says where a step's time goes."""
    return "share of time" in record["result"]


def operations_table(record: Record) -> str:
    """Return a row for each kind of operation, and a column for each size and precision."""
    shares = record["result"]["share of time"]
    kinds = next(iter(shares.values()))
    return _table(("", *shares), [(kind, *(f"{one[kind]:.1f}%" for one in shares.values())) for kind in kinds])


def _called(name: str) -> str:
    """Return the name of a toolkit; MarianMTModel is not the toolkit Marian."""
    return name.replace("marian", "transformers' MarianMTModel")


def _decoding(result: Record, settings: Record) -> Iterable[str]:
    model = result["model"]
    yield (
        f"The model: {model['training_pairs']:,} pairs, {model['steps']:,} steps in {model['minutes']:g} minutes, "
        f"{model['precision']}, seed {model['seed']}; `{settings['train']}`."
    )
    yield (
        f"The length penalty is {settings['length_penalty']:g}, so that all search for the same translation. In "
        f"batches, Dragoman in fp32 and int8 (its default) computes one batch on each core, with CTranslate2. "
        f"CTranslate2 by itself does the same (2x1), or one batch on all cores (1x2). Dragoman in bf16 and the others "
        f"compute one batch on all cores, the others of 64 sentences. One by one: the first 100 lines."
    )
    for mode in [key for key in result if key not in ("model", "ways", "equal work")]:
        each = "one" in mode
        rows = [
            (_called(name), *_speed(row), *_ratios(row), f"{row['bleu']:.2f}", f"{row['equal_lines']:.1%}")
            for name, row in result[mode].items()
        ]
        unit = "milliseconds per sentence" if each else "sentences/s"
        yield f"**{mode}**"
        times = ("Dragoman int8 is faster by a factor of", "Dragoman fp32 by", "BLEU", "same lines as Dragoman fp32")
        yield _table(("", unit, "min – max", *times), rows)


def _ratios(row: Record) -> Iterable[str]:
    return (f"{row[name]:.2f}" if name in row else "" for name in ("ratio_int8", "ratio_fp32"))


def _speed(row: Record) -> tuple[str, str]:
    found = [f"{row[key]:,.{0 if row[key] >= 100 else 1}f}" for key in ("median", "min", "max") if key in row]
    return found[0], " – ".join(found[1:])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
