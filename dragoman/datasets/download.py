"""The verb `download`: public parallel text, by name, into files that training reads."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import textwrap
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from sacrebleu.dataset import DATASETS

from dragoman.cli.options import DownloadConfig
from dragoman.cli.parsing import nearest
from dragoman.config import DragomanError
from dragoman.datasets.fetching import ELSEWHERE, fetch
from dragoman.datasets.registry import PARTS, SOURCES, File, Source
from dragoman.runtime.console import say
from dragoman.runtime.files import appearing, checksum, make_folder, write_atomically
from dragoman.runtime.optional_imports import needed
from dragoman.text.corpus import holds_out

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, KeyError, ValueError)
_LINES_AT_ONCE, _BLOCK = 10_000, 1 << 20
_INDENT = " " * 4
_HELD_OUT = 0.006  # of a table's sentences, for validation and again for testing
_OTHERS = {
    "sacrebleu": "SET:SOURCE-TARGET, a test set that sacreBLEU knows, such as sacrebleu:wmt14/full:en-de",
    "mtdata": "ID, a text that mtdata knows (OPUS and others), such as mtdata:Helsinki-opus_books-1-eng-fra",
    "hf": "DATASET:CONFIG:SPLIT, of the Hugging Face Hub with a column translation, such as hf:wmt14:de-en:train",
}
Rows = Iterator[tuple[str, ...]]


def download(config: DownloadConfig) -> int:
    """Download a text and say where it is; returns the exit code."""
    if not config.name:
        print(_catalogue(), end="")
        return 0
    kind, colon, rest = config.name.partition(":")
    if config.name not in SOURCES and not (colon and kind in _OTHERS):
        known = nearest(config.name, [*SOURCES])
        raise DragomanError(f"there is no text {config.name!r}{known}; dragoman download lists them")
    if colon and config.mirror:
        raise DragomanError(f"--mirror is for texts of the list, not for {kind}, which has its own")
    if colon:
        {"sacrebleu": _from_sacrebleu, "mtdata": _from_mtdata, "hf": _from_hub}[kind](rest, Path(config.out))
    else:
        _from_source(config.name, SOURCES[config.name], Path(config.out), config.mirror)
    return 0


def _catalogue() -> str:
    """What there is, for a terminal."""
    names: dict[str, list[str]] = {}
    for name, source in SOURCES.items():
        names.setdefault(source.about, []).append(name)
    entries = [(", ".join(alike), about) for about, alike in names.items()]
    entries += [(f"{kind}:…", about) for kind, about in _OTHERS.items()]
    of_names = textwrap.TextWrapper(79, break_on_hyphens=False)
    of_text = textwrap.TextWrapper(79, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False)
    return "".join(f"{of_names.fill(name)}\n{of_text.fill(about)}\n" for name, about in entries)


# ---- texts of the list


def _from_source(name: str, source: Source, out: Path, mirror: str) -> None:
    say(f"{name}: {source.about}\nfrom {source.home}\nlicence: {source.licence}")
    if mirror and source.tests:
        say(f"not from the mirror: {', '.join(name for name, _ in source.tests)}, which sacreBLEU fetches")
    for file in source.files:
        unpacked = out / file.name.removesuffix(".gz")
        if unpacked.name != file.name and unpacked.exists():
            raise DragomanError(
                f"{unpacked}: would be read instead of {file.name}; move it away, or choose another --out"
            )
    make_folder(out)
    base = (mirror or source.base).rstrip("/")
    for file in source.files:
        _take(file, f"{base}/{file.address}", out)
    for test_set, direction in source.tests:
        _from_sacrebleu(f"{test_set}:{direction}", out)
    lines = [f"{checksum(out / file.name)}  {file.name}" for file in source.files if (out / file.name).is_file()]
    note = f"{source.about}\nfrom {source.home}\nlicence: {source.licence}\n\nSHA-256\n" + "\n".join(lines) + "\n"
    write_atomically(out / f"{name}.txt", note.encode())


def _take(file: File, url: str, out: Path) -> None:
    """Fetch a file and take out what is wanted, unless that was done before."""
    wanted = [out / name for name in file.written]
    if wanted and all(path.is_file() for path in wanted):
        say(f"{', '.join(map(str, wanted))}: already there")
        return
    fetch(url, out / file.name, file.sha256, say)
    try:
        _check(out / file.name)
        for member, name in file.members.items():
            _take_out(file, member, out, name)
    except _BROKEN as error:
        (out / file.name).unlink()
        raise DragomanError(
            f"{out / file.name}: not the archive that it should be ({error}); try again, or {ELSEWHERE}"
        ) from None


def _take_out(file: File, member: str, out: Path, name: str) -> None:
    with _open_member(out / file.name, member) as content:
        if file.columns:
            _divide(content, out / name, file.columns)
            return
        with appearing(out / name) as (target,):
            shutil.copyfileobj(content, target)


def _check(path: Path) -> None:
    """Read a compressed tar to its end, where its own checksum is compared."""
    if path.suffix == ".tgz":
        with gzip.open(path) as packed:
            while packed.read(_BLOCK):
                pass


def _divide(table: IO[bytes], prefix: Path, languages: Sequence[str]) -> None:
    """Write the first columns of a table as training, validation and test text.

    A sentence of the first column is in one of them, with all its translations. Which one is decided by its hash, so
    that it stays there when the table grows, and must go on to be: published scores are those of the parts that this
    makes. It guarantees nothing else: sentences that differ in a comma may be in two parts, and so may one translation
    of two sentences.
    """
    paths = [Path(f"{prefix}-{part}.{language}") for part in PARTS for language in languages]
    counts = dict.fromkeys(PARTS, 0)
    with appearing(*paths) as files:
        for line in table:
            cells = [cell.strip() for cell in line.decode().split("\t")[: len(languages)]]
            if len(cells) < len(languages) or not all(cells):
                continue
            tested, held_out = (holds_out(cells[0], share) for share in (_HELD_OUT, 2 * _HELD_OUT))
            place = 2 if tested else 1 if held_out else 0
            counts[PARTS[place]] += 1
            for file, cell in zip(files[place * len(cells) :], cells, strict=False):
                file.write(f"{cell}\n".encode())
        if not any(counts.values()):
            raise ValueError("no line of its table is a pair")
    say(f"{prefix}-…: " + ", ".join(f"{count:,} pairs for {part}" for part, count in counts.items()))


@contextmanager
def _open_member(path: Path, name: str) -> Iterator[IO[bytes]]:
    """A file of an archive; in a zip it may lie in a folder, as some mirrors have it."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as zipped:
            known = next((each for each in zipped.namelist() if f"/{each}".endswith(f"/{name}")), name)
            with zipped.open(known) as content:
                yield content
        return
    with tarfile.open(path) as archive:
        member = archive.extractfile(name)
        if member is None:
            raise KeyError(name)
        yield member


# ---- texts that other libraries find


def _from_sacrebleu(rest: str, out: Path) -> None:
    name, _, direction = rest.partition(":")
    dataset: Any = DATASETS.get(name)
    if dataset is None:
        raise DragomanError(f"sacreBLEU has no test set {name!r}{nearest(name, [*DATASETS])}; sacrebleu --list has all")
    if direction not in dataset.langpairs:
        raise DragomanError(f"sacreBLEU has {name} for {', '.join(dataset.langpairs)}, not for {direction!r}")
    say(f"{name}: {dataset.description}\nby sacreBLEU, from {', '.join(dataset.data)}\nlicence: see the set's own page")
    try:
        with _by("sacreBLEU", name):
            pairs = list(zip(dataset.source(direction), dataset.references(direction), strict=True))
    except DragomanError:  # it would take the part of a file that it left for the whole
        shutil.rmtree(dataset._rawdir, ignore_errors=True)
        raise
    _write(out / name.replace("/", "-"), direction.split("-"), ((s, references[0]) for s, references in pairs))


def _from_mtdata(rest: str, out: Path) -> None:
    modules = ("entry", "index", "parser", "cache", "iso.iso639_1")
    entry, index, parser, cache, codes = (needed(f"mtdata.{name}", "mtdata") for name in modules)
    with _by("mtdata", rest):
        found = index.Index.get_instance().entries.get(entry.DatasetId.parse(rest))
        if found is None:
            raise DragomanError(f"mtdata has no text {rest!r}; mtdata list --langs eng-deu lists those of a direction")
        say(f"{rest}: by mtdata, from {found.url}\nlicence: see the page of the text\n{found.cite or ''}".rstrip())
        paths = cache.Cache(out / "mtdata").get_entry(found)
        rows = parser.Parser(paths, ext=found.in_ext or None, ent=found).read_segs(show_pbar=False)
        shorter = {long: short for short, long in codes.ISO693_1_to_3.items()}
        languages = [shorter.get(tag.lang, tag.lang) for tag in found.did.langs]
        _write(out / rest, languages, (tuple(row[:2]) for row in rows))


def _from_hub(rest: str, out: Path) -> None:
    name, *more = rest.split(":")
    if len(more) != 2:
        raise DragomanError(f"hf:{rest}: write hf:DATASET:CONFIG:SPLIT, such as hf:wmt14:de-en:train")
    datasets = needed("datasets", "hub")
    with _by("datasets", name):
        licence = datasets.load_dataset_builder(name, more[0]).info.license or "not stated; see its page"
        say(f"{name}: by datasets\nlicence: {licence}")
        rows = datasets.load_dataset(name, more[0], split=more[1])
        if "translation" not in rows.column_names:
            raise DragomanError(f"{name}: has no column translation but {', '.join(rows.column_names)}")
        found = _translations(name, (row["translation"] for row in rows))
        if (first := next(found, None)) is None:
            raise DragomanError(f"{name}: no row has a translation")
        pairs = (tuple(row[language] for language in first) for row in chain([first], found))
        _write(out / "-".join([name.rsplit("/", 1)[-1], *more]), first, pairs)


def _translations(name: str, values: Iterable[Any]) -> Iterator[dict[str, str]]:
    """The values of a column translation, by language; those that lack a side are left out and counted."""
    missing = 0
    for value in values:
        sides = [*value.values()] if isinstance(value, dict) else [value]
        if None in sides:
            missing += 1
        elif isinstance(value, dict) and all(isinstance(side, str) for side in sides):
            yield value
        else:
            raise DragomanError(
                f"{name}: its column translation must have a sentence for each language, not {str(value)[:60]}"
            )
    if missing:
        say(f"left out: {missing:,} rows that lack a side")


@contextmanager
def _by(library: str, name: str) -> Iterator[None]:
    """Say in one sentence what a library that fetches by itself could not do."""
    try:
        yield
    except DragomanError:
        raise
    except (Exception, SystemExit) as error:  # there is nothing that these libraries would not raise
        # sacreBLEU says what is wrong to its log, and exits.
        reason = "see above" if isinstance(error, SystemExit) else " ".join(str(error).split()) or type(error).__name__
        raise DragomanError(f"{name}: {library} could not get it ({reason}); try again") from None


# ---- writing


def _write(prefix: Path, languages: Iterable[str], rows: Iterable[tuple[str, ...]]) -> None:
    """Write PREFIX.LANGUAGE for each column; all appear when they are complete."""
    paths = [Path(f"{prefix}.{language}") for language in languages]
    make_folder(prefix.parent)
    iterator, count = iter(rows), 0
    with appearing(*paths) as files:
        while chunk := list(islice(iterator, _LINES_AT_ONCE)):
            count += len(chunk)
            for file, side in zip(files, zip(*chunk, strict=True), strict=True):
                file.write("".join(text.strip().replace("\n", " ") + "\n" for text in side).encode())
    say(f"{', '.join(map(str, paths))}: {count:,} lines")
