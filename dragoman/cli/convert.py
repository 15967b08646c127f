"""The verbs that make a model from a model: export, import and average."""

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from dragoman.checkpoint import ModelFolder, average_weights, picture_of_curves, put_weights
from dragoman.cli.options import AverageConfig, ExportConfig, ImportConfig
from dragoman.cli.translate import require_one
from dragoman.config import ConfigError, DragomanError, require
from dragoman.folder import (
    AVERAGE_FACT,
    CARD_FILE,
    CHECKPOINTS,
    CURVES_FILE,
    EXPORT_FILE,
    OF_ONE_MODEL,
    PARITY_FILE,
    describe,
    files_of_earlier_result,
    files_of_model,
    learned_checkpoints,
    refuse_folder_for_average,
)
from dragoman.inference.translator import Translator
from dragoman.interop import argos, ctranslate2, huggingface, onnx, web
from dragoman.interop.cards import card, compare_program
from dragoman.interop.import_marian import read_marian
from dragoman.interop.parity import Backend, Parity, Sample, choose_sample, prove
from dragoman.interop.reading import with_rules
from dragoman.runtime.console import command, say
from dragoman.runtime.files import make_folder, prepare_reports, refuse_to_overwrite, write_atomically, write_json
from dragoman.text import placeholders

_EXPORTS: dict[str, Callable[[ModelFolder, Path, str], Backend]] = {
    "argos": ctranslate2.export,
    "ctranslate2": ctranslate2.export,
    "huggingface": huggingface.export,
    "onnx": onnx.export,
    "web": web.export,
}


def export_model(config: ExportConfig) -> int:
    """Export a model folder; returns the exit code."""
    out = Path(config.out)
    is_package = out.suffix == argos.PACKAGE_SUFFIX
    if is_package and config.to != "argos":
        raise ConfigError(f"--out {out}: only --to argos writes {argos.PACKAGE_SUFFIX} files; name a folder")
    if config.to == "web":
        web.check_assets(config.assets)
    loaded = ModelFolder.load(config.folder)
    package = None
    several = "," in loaded.direction.source + loaded.direction.target
    require(not several or config.to != "web", "--to web takes a model of one direction")
    if config.to == "argos":
        one = Translator(loaded).toward(config.source, config.target)
        require_one(one, "source", "target")
        loaded = replace(loaded, direction=one.direction)
        package = argos.plan_package(loaded, config.package_version, out.name if is_package else "", one.source.tag)
    if is_package:
        prepare_reports({"--out": config.out}, files_of_model(Path(config.folder)))
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
            _export(loaded, config, Path(folder), package)
            write_atomically(out, Path(folder, out.name).read_bytes())
    else:
        with _staging(out, files_of_earlier_result(out, loaded.direction, loaded.model.config, config.to)) as staging:
            _export(loaded, config, staging, package)
    here = f"\nnext:\n  {command('translate', config.out)}" if config.to == "ctranslate2" else ""
    card_file = f"the {CARD_FILE} in it" if is_package else f"its {CARD_FILE}"
    say(f"exported to {config.out}; {card_file} shows how to use it without Dragoman{here}")
    return 0


def import_model(config: ImportConfig) -> int:
    """Import a folder; returns the exit code."""
    source, out = Path(config.folder), Path(config.out)
    imported = read_marian(source, config.source, config.target)
    with _staging(out, files_of_earlier_result(out, imported.loaded.direction, imported.loaded.model.config)) as folder:
        sample = choose_sample(imported.loaded, source, config.valid, config.sentences)
        backend = huggingface.HuggingFaceBackend(source, imported.rows, imported.absent)
        write_json(folder / PARITY_FILE, asdict(_prove(imported.loaded, backend, sample)))
        imported.loaded.save(folder)
    say(f"imported into {config.out}\nnext:\n  {command('translate', config.out)}")
    return 0


def average(config: AverageConfig) -> int:
    """Average the last checkpoints of a run into a new model folder; returns the exit code."""
    folder = Path(config.folder)
    checkpoints = learned_checkpoints(folder)[-config.last :]
    if not checkpoints:
        raise DragomanError(f"{folder / CHECKPOINTS}: no checkpoints; give the --out of a run that has validated once")
    refuse_folder_for_average(Path(config.out))
    loaded = ModelFolder.load(folder)
    put_weights(loaded.model, average_weights(checkpoints), checkpoints[-1])
    names = ", ".join(path.stem for path in checkpoints)
    known = {name: fact for name, fact in loaded.direction.facts.items() if name not in OF_ONE_MODEL}
    direction = replace(loaded.direction, facts=known | {AVERAGE_FACT: names})
    replace(loaded, direction=direction).save(Path(config.out))
    say(f"averaged {names} into {config.out}\nnext:\n  {command('translate', config.out)}")
    return 0


def _export(loaded: ModelFolder, config: ExportConfig, folder: Path, package: argos.Package | None) -> None:
    """Write the export into an empty folder and prove it."""
    loaded = replace(loaded, vocabulary=with_rules(loaded.vocabulary, folder))
    export, sample = _EXPORTS[config.to], choose_sample(loaded, Path(config.folder), config.valid, config.sentences)
    if package and package.tag:
        export = partial(ctranslate2.export, tag=package.tag)
        sample = replace(sample, sources=[package.tag + source for source in sample.sources])
    if config.quantization != "float32":
        say("first the same in float32, where rounding cannot hide a fault")
        with tempfile.TemporaryDirectory(dir=folder) as place:
            _prove(loaded, export(loaded, Path(place), "float32"), sample)
    model = folder / "model" if package else folder
    model.mkdir(exist_ok=True)
    parity = _prove(loaded, export(loaded, model, config.quantization), sample)
    example = sample.sources[0].removeprefix(package.tag if package else "") if sample.references else "…"
    readme = card(loaded, config.to, config.quantization, parity, package, example)
    if package:
        argos.write_package(package, loaded, model, folder, readme)
        shutil.rmtree(model)
    elif config.to == "web":
        web.write_site(loaded, folder, config.assets, config.quantization)
    else:
        if loaded.vocabulary.has_symbols:
            shutil.copy(placeholders.__file__, folder)
        say("running the program of the card on the same sentences")
        same = compare_program(readme, folder, loaded, sample.sources)
        say(f"  {same}")
        readme = card(loaded, config.to, config.quantization, parity, None, example, same)
    if not package and (curves := Path(config.folder, CURVES_FILE)).is_file():
        shutil.copy(curves, folder)
    readme += picture_of_curves(folder)
    description = describe(loaded.direction, loaded.model.config, config.to, folder)
    (folder / EXPORT_FILE).write_bytes(description)
    (folder / CARD_FILE).write_text(readme, encoding="utf-8")
    write_json(folder / PARITY_FILE, asdict(parity))


def _prove(loaded: ModelFolder, other: Backend, sample: Sample) -> Parity:
    """Compare both sides, print the result, and refuse to go on if they do not agree."""
    say(f"comparing both sides on {len(sample.sources):,} sentences")
    parity = prove(loaded, other, sample)
    for line in parity.lines():
        say(line)
    if not parity.passed:
        found = [f"{one['source']!r} becomes {one['here']!r} here, {one['there']!r} there" for one in parity.examples]
        difference = next(iter(found), "their numbers differ")
        raise DragomanError(f"the two sides do not agree, so nothing was written; {difference}")
    return parity


@contextmanager
def _staging(out: Path, ours: Collection[str]) -> Iterator[Path]:
    """A new folder that takes the place of `out` if the block ends well; `ours` are the files that may go."""
    refuse_to_overwrite(out, ours)
    make_folder(out.parent)
    real, staging = Path(os.path.realpath(out)), out  # a link stays one
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=real.parent) as place:
            staging = Path(place, "new")
            staging.mkdir()
            yield staging
            refuse_to_overwrite(out, ours)
            before = Path(place, "old")
            try:
                if real.exists():
                    real.rename(before)
                staging.rename(real)
            except BaseException:
                if before.exists() and not real.exists():
                    before.rename(real)
                raise
    except DragomanError as error:
        raise type(error)(str(error).replace(str(staging), str(out))) from None
    except OSError as error:
        raise DragomanError(f"{out}: can't be written ({error.strerror or error})") from None
