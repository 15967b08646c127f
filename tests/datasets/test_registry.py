"""The list of texts: complete, and true where it can be checked."""

from __future__ import annotations

import gzip
import hashlib

import pytest

from dragoman.datasets.registry import SOURCES, File
from tests.texts_at_hand import data_at_hand

CHECKED = {name: file for source in SOURCES.values() for file in source.files if file.sha256 for name in [file.name]}


@pytest.mark.parametrize("name", SOURCES)
def test_each_says_what_it_is_and_whose(name: str) -> None:
    source = SOURCES[name]
    assert source.about
    assert source.licence
    assert source.home.startswith("https://")
    assert source.base.startswith("https://")
    assert source.files
    for file in source.files:
        assert not file.address.startswith("/")
        assert len(file.sha256) in (0, 64)
        assert file.sha256 or file.members, "what has no checksum is an archive, which has its own"


def test_no_two_files_of_a_text_have_one_name() -> None:
    for source in SOURCES.values():
        names = [name for file in source.files for name in (file.written or [file.name])]
        assert len(set(names)) == len(names)


def test_texts_can_lie_in_one_folder() -> None:
    written = {name: {file for f in source.files for file in f.written} for name, source in SOURCES.items()}
    assert sum(map(len, written.values())) == len(set().union(*written.values()))


def test_a_name_is_the_end_of_an_address() -> None:
    assert File("raw/train.en.gz").name == "train.en.gz"
    assert File("fra-eng.zip").name == "fra-eng.zip"


@pytest.mark.parametrize("name", CHECKED)
def test_the_checksums_are_those_of_the_files(name: str) -> None:
    folder = data_at_hand("multi30k")
    raw, packed = folder / "raw" / name, folder / "tok" / f"{name}.gz"
    content = raw.read_bytes() if raw.is_file() else gzip.decompress(packed.read_bytes())
    assert hashlib.sha256(content).hexdigest() == CHECKED[name].sha256
