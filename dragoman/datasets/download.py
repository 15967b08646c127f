"""Public parallel text by name: fetched, checked, and written as files that training reads."""

import gzip
import http.client
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import yaml
from rich.console import Console
from rich.progress import wrap_file
from sacrebleu.dataset import DATASETS

from dragoman.config import DragomanError
from dragoman.datasets import PARTS
from dragoman.runtime.console import command, nearest, say
from dragoman.runtime.files import appearing, checksum, make_folder, write_atomically
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.corpus import holds_out

LIBRARIES = {
    "sacrebleu": "SET:SOURCE-TARGET, a test set that sacreBLEU knows, such as sacrebleu:wmt14/full:en-de",
    "mtdata": "ID, a text that mtdata knows (OPUS and others), such as mtdata:Helsinki-opus_books-1-eng-fra",
    "hf": "DATASET:CONFIG:SPLIT, of the Hugging Face Hub with a column translation, such as hf:wmt14:de-en:train",
}
"""Libraries that find further texts, by the prefix of their names."""
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, KeyError, ValueError)
_TIMEOUT = 60.0  # seconds without a byte
_HELD_OUT = 0.006  # of a table's sentences, for validation and again for testing
_ELSEWHERE = "name another place: dragoman download … --mirror"


@dataclass(frozen=True)
class File:
    """One file of a source."""

    address: str
    """Below the source's base address."""
    sha256: str = ""
    """Of the file; empty where it changes, or where nobody has published it."""
    members: dict[str, str] = field(default_factory=dict)
    """What to take out of an archive: the name of the file to write, by that of the member."""
    columns: Sequence[str] = ()
    """Languages of a table's first columns. It becomes training, validation and test text, named as members says."""


@dataclass(frozen=True)
class Source:
    """A parallel text, and what to know before using it."""

    about: str
    home: str
    licence: str
    base: str
    files: Sequence[File]
    tests: Sequence[tuple[str, str]] = ()
    """Validation and test text that sacreBLEU fetches: name of its test set, and direction."""


_TEXTS = yaml.safe_load(Path(__file__).with_name("registry.yaml").read_text(encoding="utf-8"))
SOURCES = {name: Source(**text | {"files": [File(**file) for file in text["files"]]}) for name, text in _TEXTS.items()}
"""The texts of registry.yaml by name."""


def download(name: str, out: Path, mirror: str = "") -> None:
    """Download a text into a folder and say where it is from, and under which licence.

    The name is one of SOURCES, which can also be fetched from another address, the mirror; or the prefix of one of
    LIBRARIES and the name by which that knows the text.
    """
    library, colon, rest = name.partition(":")
    if name in SOURCES:
        _from_source(name, SOURCES[name], out, mirror)
    elif not colon or library not in LIBRARIES:
        raise DragomanError(f"there is no text {name!r}{nearest(name, SOURCES)}; {command('download')} lists them")
    elif mirror:
        raise DragomanError(f"--mirror is for texts of the list, not for {library}, which has its own")
    else:
        {"sacrebleu": _from_sacrebleu, "mtdata": _from_mtdata, "hf": _from_hub}[library](rest, out)


def fetch(url: str, path: Path, sha256: str = "") -> None:
    """Fetch a file over HTTP unless it is there; it appears when it is complete and has this SHA-256 (if not empty)."""
    if path.exists():
        if sha256 and checksum(path) != sha256:
            raise DragomanError(f"{path}: not the file that {url} should be (its SHA-256 differs); move it away")
        say(f"{path}: already there")
        return
    make_folder(path.parent)
    with appearing(path) as (file,):
        _receive(url, file)
        file.flush()
        if sha256 and checksum(Path(file.name)) != sha256:
            raise DragomanError(f"{url}: sent another file (its SHA-256 differs); try again, or {_ELSEWHERE}")
    say(f"{path}: {path.stat().st_size:,} bytes")


def _receive(url: str, file: IO[bytes]) -> None:
    """Copy what a server sends into a file, with a progress bar on a terminal."""
    console = Console(stderr=True)
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "dragoman", "Accept-Encoding": "identity"})
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            total = int(response.headers.get("Content-Length") or 0)
            hidden = not (total and console.is_terminal)
            with wrap_file(response, total, console=console, transient=True, disable=hidden) as content:
                shutil.copyfileobj(content, file, 1 << 18)
        if file.tell() < total:
            raise DragomanError(f"{url}: the connection ended after {file.tell():,} of {total:,} bytes; try again")
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ValueError) as error:
        reason = error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", error)
        raise DragomanError(f"{url}: can't be fetched ({reason}); try again, or {_ELSEWHERE}") from None


# ---- texts of the registry


def _from_source(name: str, source: Source, out: Path, mirror: str) -> None:
    about = f"{source.about}\nfrom {source.home}\nlicence: {source.licence}"
    say(f"{name}: {about}")
    base = (mirror or source.base).rstrip("/")
    for file in source.files:
        path = out / Path(file.address).name
        endings = [f"-{part}.{language}" for part in PARTS for language in file.columns] or [""]
        wanted = [out / f"{prefix}{ending}" for prefix in file.members.values() for ending in endings]
        if wanted and all(each.is_file() for each in wanted):
            say(f"{', '.join(map(str, wanted))}: already there")
            continue
        fetch(f"{base}/{file.address}", path, file.sha256)
        try:
            _extract(path, file, out)
        except _BROKEN as error:
            path.unlink()
            raise DragomanError(f"{path}: a damaged or wrong archive ({error}); try again, or {_ELSEWHERE}") from None
    for test_set, direction in source.tests:
        _from_sacrebleu(f"{test_set}:{direction}", out)
    write_atomically(out / f"{name}.txt", f"{about}\n".encode())


def _extract(path: Path, file: File, out: Path) -> None:
    """Write what is wanted of an archive: the table in a zip as parts, the files of a tar archive as they are."""
    for member, name in file.members.items():
        if file.columns:
            with zipfile.ZipFile(path) as zipped:
                # In some mirrors' archives it lies in a folder.
                known = next((each for each in zipped.namelist() if f"/{each}".endswith(f"/{member}")), member)
                with zipped.open(known) as table:
                    _divide(table, out / name, file.columns)
        else:
            with tarfile.open(path) as archive, appearing(out / name) as (target,):
                shutil.copyfileobj(cast("IO[bytes]", archive.extractfile(member)), target)


def _divide(table: IO[bytes], prefix: Path, languages: Sequence[str]) -> None:
    """Write the first columns of a table as training, validation and test text.

    A sentence of the first column is in one of them, with all its translations. Its hash decides in which. This must
    not change: published scores are those of these parts.
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
    say(f"{prefix}-…: " + ", ".join(f"{count:,} pairs for {part}" for part, count in counts.items()))


# ---- texts that other libraries find


def _from_sacrebleu(rest: str, out: Path) -> None:
    name, _, direction = rest.partition(":")
    dataset: Any = DATASETS.get(name)
    if dataset is None:
        raise DragomanError(f"sacreBLEU has no test set {name!r}; sacrebleu --list has all")
    if direction not in dataset.langpairs:
        raise DragomanError(f"sacreBLEU has {name} for {', '.join(dataset.langpairs)}, not for {direction!r}")
    say(f"{name}: {dataset.description}\nby sacreBLEU, from {', '.join(dataset.data)}\nlicence: see the set's own page")
    try:
        with _failing_in_a_sentence("sacreBLEU", name):
            pairs = list(zip(dataset.source(direction), dataset.references(direction), strict=True))
    except DragomanError:  # it would take the part of a file that it left for the whole
        shutil.rmtree(dataset._rawdir, ignore_errors=True)
        raise
    _write(out / name.replace("/", "-"), direction.split("-"), ((s, references[0]) for s, references in pairs))


def _from_mtdata(rest: str, out: Path) -> None:
    modules = ("entry", "index", "parser", "cache", "iso.iso639_1")
    entry, index, parser, cache, codes = (import_optional(f"mtdata.{name}", "mtdata") for name in modules)
    with _failing_in_a_sentence("mtdata", rest):
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
    datasets = import_optional("datasets", "hub")
    with _failing_in_a_sentence("datasets", name):
        licence = datasets.load_dataset_builder(name, more[0]).info.license or "not stated; see its page"
        say(f"{name}: by datasets\nlicence: {licence}")
        table = datasets.load_dataset(name, more[0], split=more[1])
        if "translation" not in table.column_names:
            raise DragomanError(f"{name}: has no column translation with a sentence for each language")
        rows = (row["translation"] for row in table)
        languages = list(table[0]["translation"])
        _write(out / "-".join([name.rsplit("/", 1)[-1], *more]), languages, (tuple(row.values()) for row in rows))


@contextmanager
def _failing_in_a_sentence(library: str, name: str) -> Iterator[None]:
    """Raise DragomanError whatever a library that fetches by itself raises."""
    try:
        yield
    except DragomanError:
        raise
    except (Exception, SystemExit) as error:  # sacreBLEU says what is wrong to its log, and exits
        reason = "see above" if isinstance(error, SystemExit) else " ".join(str(error).split()) or type(error).__name__
        raise DragomanError(f"{name}: {library} could not get it ({reason}); try again") from None


def _write(prefix: Path, languages: Iterable[str], rows: Iterable[tuple[str, ...]]) -> None:
    """Write PREFIX.LANGUAGE for each column; all appear when they are complete."""
    paths = [Path(f"{prefix}.{language}") for language in languages]
    make_folder(prefix.parent)
    with appearing(*paths) as files:
        for row in rows:
            for file, text in zip(files, row, strict=True):
                file.write(((text or "").strip().replace("\n", " ") + "\n").encode())
    say(f"wrote {', '.join(map(str, paths))}")
