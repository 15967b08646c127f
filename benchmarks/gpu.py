"""How fast Dragoman trains and translates on one GPU, and how much of the GPU it uses, beside its peers.

    python benchmarks/gpu.py DATA [--only training|decoding] [--sizes base big] [--compiled] [--batch-tokens N]
                             [--repeats N] [--model DIR] [--device cuda:0]

Training: target tokens a second in bf16 on random subwords whose lengths are spread like those of a text, in batches of
the preset's size; with --compiled also compiled by torch.compile, which takes minutes. Each competitor is a process of
its own, alone on the GPU. MFU is the share of the GPU's peak rate in bf16 that the model's operations take:

    operations of a step = 6 · Σ (parameters of each matrix · tokens that it multiplies) + 12 · d_model · Σ attended

where attended are the pairs of positions that attention compares in all layers (step_flops in peers/shape.py). Padding
and what is computed twice do not count. MFU takes the peak from the data sheet; "of product" takes the rate of a large
matrix product on the same GPU instead. Decoding: raw lines of DATA, as for speed.py, to raw lines, beside CTranslate2
in float16. Stores benchmarks/results/gpu-training.json and gpu-decoding.json. `--tiny --device cpu` tries everything
without a GPU on a small model, compiles nothing and stores nothing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import speed
import torch
from peers.batches import write_batches
from peers.decoding_contest import compare_decoding
from peers.protocol import Message
from peers.rounds import Competitor, Contest, add_ratios, rounded, summary
from peers.settings import Settings
from peers.shape import Shape, step_flops
from peers.text import choose_batches
from peers.training_contest import shape_of

from dragoman.config import PRESETS, DragomanError, model_preset
from dragoman.runtime.device import choose_device
from dragoman.training.dry_run import SyntheticText

OURS = "dragoman"
BATCHES = 4
"""Of a measurement, of different lengths."""
VOCABULARY = 37_000
"""The paper's; lengths are about those of WMT's English-German text."""
TINY = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
PEAKS = {"H200": 989, "H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "A100": 312, "L40S": 362, "4090": 165}
"""Dense bf16 TFLOP/s by NVIDIA's data sheets; the first name that is part of the GPU's."""
PRODUCT_SIZE = 8192
MODULES = {OURS: "dragoman_worker", "nn.Transformer": "torch_transformer", "marian": "marian"}


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="folder of Multi30k, as for speed.py")
    parser.add_argument("--only", choices=("training", "decoding"), help="measure only this")
    parser.add_argument("--sizes", nargs="+", choices=list(PRESETS), default=["base", "big"], help="presets to train")
    parser.add_argument("--compiled", action="store_true", help="train with torch.compile, too")
    parser.add_argument("--batch-tokens", type=int, default=0, help="of a training batch (the preset's)")
    parser.add_argument("--repeats", type=int, default=10, help="measurements of each competitor (10)")
    parser.add_argument("--model", type=Path, help="model folder to decode with (.bench/model, trained if missing)")
    parser.add_argument("--device", default="cuda:0", help="where to compute (cuda:0)")
    parser.add_argument("--tiny", action="store_true", help="try it on a small model, without compiling")
    parser.add_argument("--work", type=Path, default=speed.ROOT / ".bench", help="folder of logs (.bench)")
    parser.add_argument("--results", type=Path, default=speed.ROOT / "benchmarks" / "results", help="where to store")
    return parser.parse_args(arguments)


def settings_from(options: argparse.Namespace) -> Settings:
    """The options as the contests take them."""
    words = [str(options.data), "--work", str(options.work), "--repeats", str(options.repeats)]
    words += ["--model", str(options.model)] if options.model else []
    found = speed.settings_from(speed.parse(words))
    return replace(found, device=options.device, lines=8 if options.tiny else 0, sizes=tuple(options.sizes))


def data_sheet_peak(device: str) -> int | None:
    """Dense bf16 TFLOP/s of this GPU; None if it is not in the list."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else ""
    return next((peak for part, peak in PEAKS.items() if part in name), None)


def training_competitors(compiled: bool) -> list[Competitor]:
    """Everybody; compiled: and everybody compiled."""
    return [
        Competitor(f"{name} compiled" if way else name, name, f"peers.{module}", {"compile": way})
        for name, module in MODULES.items()
        for way in (False, *[True] * compiled)
    ]


def compare_training(settings: Settings, options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, str]]:
    """Measure each size; returns results by size, and the versions of all packages."""
    tiny = options.tiny
    words = 200 if tiny else VOCABULARY
    text = SyntheticText(100 if tiny else 20_000, 28.0, 200, words)
    results: dict[str, Any] = {}
    versions: dict[str, str] = {}
    for size in settings.sizes:
        config = replace(model_preset(size), source_vocab_size=words, target_vocab_size=words)
        config = replace(config, **(TINY if tiny else {}))
        tokens = options.batch_tokens or PRESETS[size]["optimizer.batch_tokens"]
        batches = choose_batches(text, BATCHES, config.max_length, tokens)
        path = settings.work / "batches" / f"gpu-{size}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_batches(path, batches)
        request = {"task": "training", "batches": str(path), "config": asdict(config), "precision": "bf16"}
        request |= {"shape": asdict(shape_of(config)), "device": settings.device}
        flops = step_flops(Shape(**request["shape"]), batches)
        rows: dict[str, Message] = {}
        for competitor in training_competitors(options.compiled and not tiny):
            rows |= _measure(settings, competitor, request, flops, 256 if tiny else PRODUCT_SIZE, versions)
        add_ratios(rows, {"ratio": OURS}, more_is_better=True)
        for row in rows.values() if OURS in rows else ():
            row["share_of_product"] = rounded(row["tflops"] / rows[OURS]["product_tflops"])
        results[size] = {
            "target_tokens_per_second": rows,
            "model_gflop": rounded(flops / 1e9),
            "batch_tokens": tokens,
            "target_tokens": sum(batch.num_tokens for batch in batches),
        }
    return results, versions


def _measure(
    settings: Settings, competitor: Competitor, request: Message, flops: int, size: int, versions: dict[str, str]
) -> dict[str, Message]:
    """One competitor's row, or none if it fails: its speeds and its MFU; of ours also the rate of a large product."""
    settings.report(f"{competitor.name}: loading")
    with Contest([competitor], request, settings.work, settings.threads, settings.report) as contest:
        facts = dict(contest.facts.get(competitor.name, {}))
        rate = contest.ask(OURS, {"do": "rate", "size": size}) if OURS in contest.names else None
        answers = [contest.ask(competitor.name, {"do": "steps"}) for _ in range(settings.repeats) if contest.names]
    done = [answer for answer in answers if answer is not None]
    if len(done) < settings.repeats:
        return {}
    versions |= facts.pop("versions")
    seconds = statistics.median(answer["seconds"] for answer in done)
    row = summary([answer["tokens"] / answer["seconds"] for answer in done]) | facts
    row["tflops"] = rounded(flops / seconds / 1e12)
    if peak := data_sheet_peak(settings.device):
        row["mfu"] = rounded(row["tflops"] / peak)
    if rate:
        row["product_tflops"] = rounded(rate["bf16"] / 1e3)
    settings.report(f"{competitor.name}: {row['median']:,.0f} tokens/s, {row['tflops']:.3g} TFLOP/s")
    return {competitor.name: row}


def decoding_competitors(device: str) -> list[Competitor]:
    """Dragoman in both precisions, and CTranslate2 in float16, which it has on GPUs alone."""
    half = "fp16" if device.startswith("cuda") else "fp32"
    return [
        Competitor("dragoman fp32", OURS, "peers.dragoman_worker", {"precision": "fp32"}),
        Competitor("dragoman bf16", OURS, "peers.dragoman_worker", {"precision": "bf16"}),
        Competitor(f"ctranslate2 {half}", "ctranslate2", "peers.ctranslate2_peer", {"precision": half, "workers": 1}),
    ]


def main(arguments: list[str]) -> int:
    """Compare, print, store."""
    options, tree = parse(arguments), speed.commit()
    settings = settings_from(options)
    try:
        choose_device(options.device)
        if options.only != "decoding":
            result, versions = compare_training(settings, options)
            for size, found in result.items():
                title = f"Training {size} in bf16, target tokens a second"
                more = {"tflops": "TFLOP/s", "mfu": "MFU", "share_of_product": "of product", "ratio": "ratio"}
                speed.CONSOLE.print(speed.table(title, "tokens/s", found["target_tokens_per_second"], more))
            store(
                "training", options, tree, {"peak_tflops": data_sheet_peak(options.device), "result": result}, versions
            )
        if options.only != "training":
            result, versions = compare_decoding(settings, decoding_competitors(options.device))
            speed.show_decoding(result)
            store("decoding", options, tree, {"result": result}, versions)
    except DragomanError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def store(name: str, options: argparse.Namespace, tree: str, found: dict[str, Any], versions: dict[str, str]) -> None:
    """Keep what was measured, unless it was only tried."""
    if not options.tiny:
        told = ("only", "sizes", "compiled", "batch_tokens", "repeats")
        command = speed.command_line("gpu.py", options, parse(["DATA"]), told).replace("--compiled True", "--compiled")
        content = {"command": command, "commit": tree, "settings": {"repeats": options.repeats}} | found
        speed.store(options.results / f"gpu-{name}.json", content, versions)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
