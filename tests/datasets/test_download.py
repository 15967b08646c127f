"""Downloading by name: from a server on this machine, into files that training reads."""

import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from sacrebleu.dataset import DATASETS

from dragoman.cli.main import main
from dragoman.config import DragomanError
from dragoman.datasets import PARTS
from dragoman.datasets import download as download_module
from dragoman.datasets.download import SOURCES, File, Source, fetch
from dragoman.text.corpus import read_pairs
from tests.local_server import LocalServer, serving
from tests.texts_at_hand import data_at_hand

ENGLISH, GERMAN = ["A cat.", "Two dogs."], ["Eine Katze.", "Zwei Hunde."]


def gz(lines: list[str]) -> bytes:
    return gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0)


def tgz(members: dict[str, list[str]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, lines in members.items():
            content = "".join(line + "\n" for line in lines).encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zipped(members: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


# Each sentence has two translations.
TABLE = [(f"{number} cats.", f"{number} {word}.") for number in range(2000) for word in ("Katzen", "Kater")]
FILES = {
    "/raw/train.en.gz": gz(ENGLISH),
    "/raw/train.de.gz": gz(GERMAN),
    "/wmt/corpus.tgz": tgz({"training/corpus.de-en.en": ENGLISH, "training/corpus.de-en.de": GERMAN, "../evil": ["x"]}),
    "/deu-eng.zip": zipped({"deu.txt": "".join(f"{e}\t{g}\tCC-BY\r\n" for e, g in TABLE) + "A fish.\nNo.\t\n"}),
}
TEXTS = {
    "flickr": Source(
        "Captions",
        "https://flickr.example",
        "research only",
        "https://away.example",
        tuple(File(name[1:], hashlib.sha256(FILES[name]).hexdigest()) for name in list(FILES)[:2]),
    ),
    "wmt": Source(
        "News",
        "https://wmt.example",
        "see the page",
        "https://away.example",
        (File("wmt/corpus.tgz", members={f"training/corpus.de-en.{x}": f"corpus.{x}" for x in ("de", "en")}),),
    ),
    "tatoeba": Source(
        "Everyday",
        "https://tatoeba.example",
        "CC BY",
        "https://away.example",
        (File("deu-eng.zip", members={"deu.txt": "tatoeba"}, columns=("en", "de")),),
    ),
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setattr(download_module, "SOURCES", TEXTS)
    with serving(FILES) as server:
        yield server


def get(server: LocalServer, name: str, out: Path) -> int:
    return main(["download", name, "--out", str(out), "--mirror", f"{server.address}/"])


@pytest.mark.parametrize(("name", "prefix"), [("flickr", "train"), ("wmt", "corpus")])
def test_downloaded_text_can_be_read_for_training(
    name: str, prefix: str, server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert get(server, name, tmp_path / "data") == 0
    pairs = list(read_pairs([str(tmp_path / "data" / prefix)], "en", "de"))
    assert pairs == list(zip(ENGLISH, GERMAN, strict=True))
    shown = capsys.readouterr()
    assert shown.out == ""
    first, home, licence = shown.err.splitlines()[:3]
    assert TEXTS[name].about in first
    assert home == f"from {TEXTS[name].home}"
    assert licence == f"licence: {TEXTS[name].licence}"
    assert not (tmp_path / "evil").exists()
    assert f"licence: {TEXTS[name].licence}" in (tmp_path / "data" / f"{name}.txt").read_text()


def test_a_table_is_split_by_sentence(server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert get(server, "tatoeba", tmp_path) == 0
    parts = {part: list(read_pairs([str(tmp_path / f"tatoeba-{part}")], "en", "de")) for part in PARTS}
    assert sorted(pair for part in parts.values() for pair in part) == sorted(TABLE)
    sentences = {part: {english for english, _ in pairs} for part, pairs in parts.items()}
    assert sum(map(len, sentences.values())) == 2000  # none is in two of them
    assert 0 < len(sentences["valid"]) < 40
    assert 0 < len(sentences["test"]) < 40
    assert f"{len(parts['test'])} pairs for test" in capsys.readouterr().err
    more = "".join(f"{english}\t{german}\n" for english, german in [("A new one.", "Neu."), *TABLE])
    server.files["/deu-eng.zip"] = zipped({"deu.txt": more})
    assert get(server, "tatoeba", tmp_path / "later") == 0
    later = {english for english, _ in read_pairs([str(tmp_path / "later" / "tatoeba-test")], "en", "de")}
    assert later - {"A new one."} == sentences["test"]


# ---- fetching


def test_a_file_arrives_and_is_not_fetched_again(
    server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, content = tmp_path / "folder" / "file", server.files["/deu-eng.zip"]
    for _ in range(2):
        fetch(f"{server.address}/deu-eng.zip", path, hashlib.sha256(content).hexdigest())
    assert path.read_bytes() == content
    assert server.asked == ["/deu-eng.zip"]
    assert capsys.readouterr().err == f"{path}: {len(content):,} bytes\n{path}: already there\n"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("sha256", ["", "0" * 64])
def test_a_connection_that_breaks_leaves_nothing(sha256: str, server: LocalServer, tmp_path: Path) -> None:
    server.cut_after = 30
    with pytest.raises(DragomanError, match=r"corpus\.tgz: the connection ended after 30 of [\d,]+ bytes; try again$"):
        fetch(f"{server.address}/wmt/corpus.tgz", tmp_path / "file", sha256)
    assert list(tmp_path.iterdir()) == []


def test_another_file_of_the_same_name_is_left_alone(server: LocalServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"my own")
    with pytest.raises(DragomanError, match="move it away"):
        fetch(f"{server.address}/deu-eng.zip", tmp_path / "file", "0" * 64)
    fetch(f"{server.address}/deu-eng.zip", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"my own"
    assert server.asked == []


def test_unreachable_servers_and_missing_files_are_named(server: LocalServer, tmp_path: Path) -> None:
    for url, reason in (
        (f"{server.address}/nothing", r"\(HTTP Error 404: Not Found\); try again, or name another place"),
        ("http://127.0.0.1:1/file", r"\(.*Connection refused\)"),
        ("http://[abc/file", r"\(Invalid IPv6 URL\)"),
    ):
        with pytest.raises(DragomanError, match=rf"^{re.escape(url)}: can't be fetched {reason}"):
            fetch(url, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_corrupted_file_is_refused(server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.files["/raw/train.en.gz"] = gz(["something else"])
    assert get(server, "flickr", tmp_path) == 1
    assert "sent another file (its SHA-256 differs)" in capsys.readouterr().err
    assert not list(tmp_path.glob("train*"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("wmt", FILES["/wmt/corpus.tgz"][:99]),
        ("wmt", tgz({"other": ["x"]})),
        ("tatoeba", FILES["/deu-eng.zip"][:-20]),
        ("tatoeba", zipped({"fra.txt": "x"})),
    ],
    ids=["half a tar", "another tar", "half a zip", "another zip"],
)
def test_damaged_archives_are_removed(
    name: str, content: bytes, server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = TEXTS[name].files
    server.files[f"/{file.address}"] = content
    assert get(server, name, tmp_path) == 1
    assert f"{Path(file.address).name}: a damaged or wrong archive" in (told := capsys.readouterr().err)
    assert "try again, or name another place" in told
    assert not list(tmp_path.glob("*"))
    server.files[f"/{file.address}"] = FILES[f"/{file.address}"]
    assert get(server, name, tmp_path) == 0


# ---- the files themselves


@pytest.mark.slow
def test_the_real_texts_of_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, tatoeba = data_at_hand("multi30k"), data_at_hand("tatoeba/fra-eng.zip")
    files = {f"/raw/{path.name}": path.read_bytes() for path in (folder / "raw").glob("*.gz")}
    files |= {f"/tok/{path.stem}": gzip.decompress(path.read_bytes()) for path in (folder / "tok").glob("*.gz")}
    files["/fra-eng.zip"] = tatoeba.read_bytes()
    with serving(files) as server:
        for name in ("multi30k", "multi30k-tok", "tatoeba-en-fr"):
            assert get(server, name, tmp_path) == 0
    sizes = {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000}
    for part, count in sizes.items():
        for suffix, target in (("", "de"), ("", "fr"), (".lc.norm.tok", "de")):
            assert sum(1 for _ in read_pairs([str(tmp_path / f"{part}{suffix}")], "en", target)) == count
    parts = [list(read_pairs([str(tmp_path / f"tatoeba-en-fr-{part}")], "en", "fr")) for part in PARTS]
    assert sum(map(len, parts)) == 167_130
    assert 600 < len({english for english, _ in parts[2]}) < 1_000
    assert not {english for english, _ in parts[0]} & {english for pairs in parts[1:] for english, _ in pairs}


# ---- names


def test_without_a_name_all_texts_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["download"]) == 0
    shown = capsys.readouterr().out
    for name in [*SOURCES, "sacrebleu:…", "mtdata:…", "hf:…"]:
        assert name in re.split(r"[, \n]+", shown)
    assert shown.count("Everyday sentences") == 1, "said once, of all languages"
    assert max(map(len, shown.splitlines())) < 80


def test_an_unknown_name_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["download", "multi3ok", "--out", str(tmp_path / "x")]) == 1
    shown = capsys.readouterr().err
    assert "there is no text 'multi3ok' (did you mean multi30k" in shown
    assert not (tmp_path / "x").exists()
    assert main(["download", "ftp:x", "--out", str(tmp_path / "x")]) == 1
    assert main(["download", "sacrebleu:wmt14/full:en-de", "--mirror", "https://x.example"]) == 1
    assert "--mirror is for texts of the list, not for sacrebleu" in capsys.readouterr().err


# ---- by other libraries


SGML = '<{kind} setid="x"><doc docid="d"><p>\n<seg id="1">{a}</seg>\n<seg id="2">{b}</seg>\n</p></doc></{kind}>'


@pytest.fixture
def news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LocalServer, Any]]:
    """A test set of sacreBLEU's, on this machine."""
    archive = tgz(
        {
            "t/src.en.sgm": [SGML.format(kind="srcset", a=ENGLISH[0], b=ENGLISH[1])],
            "t/ref.de.sgm": [SGML.format(kind="refset", a=GERMAN[0], b=GERMAN[1])],
        }
    )
    with serving({"/news.tgz": archive}) as server:
        kind = type(DATASETS["wmt14/full"])
        dataset = kind(
            "news/full",
            data=[f"{server.address}/news.tgz"],
            md5=[hashlib.md5(archive).hexdigest()],
            description="Some news.",
            langpairs={"en-de": ["t/src.en.sgm", "t/ref.de.sgm"]},
        )
        dataset._outdir = str(tmp_path / "cache")
        dataset._rawdir = str(tmp_path / "cache" / "raw")
        monkeypatch.setitem(DATASETS, "news/full", dataset)
        yield server, dataset


def test_a_sacrebleu_set(news: tuple[LocalServer, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["download", "sacrebleu:news/full:en-de", "--out", str(tmp_path / "data")]) == 0
    pairs = list(read_pairs([str(tmp_path / "data" / "news-full")], "en", "de"))
    assert pairs == list(zip(ENGLISH, GERMAN, strict=True))
    assert "Some news." in capsys.readouterr().err


def test_failures_of_sacrebleu_are_one_sentence(
    news: tuple[LocalServer, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    server, _ = news
    whole, server.files["/news.tgz"] = server.files["/news.tgz"], b"other bytes"
    assert main(["download", "sacrebleu:news/full:en-de", "--out", str(tmp_path / "data")]) == 1
    assert "MD5 sum of downloaded file was incorrect" in caplog.text
    assert "news/full: sacreBLEU could not get it (see above); try again" in capsys.readouterr().err
    server.files["/news.tgz"] = whole
    assert main(["download", "sacrebleu:news/full:en-de", "--out", str(tmp_path / "data")]) == 0
    for name, said in (
        ("news/ful:en-de", "no test set 'news/ful'; sacrebleu --list"),
        ("news/full:de-en", "sacreBLEU has news/full for en-de, not for 'de-en'"),
    ):
        assert main(["download", f"sacrebleu:{name}", "--out", str(tmp_path / "none")]) == 1
        assert said in capsys.readouterr().err
    assert not (tmp_path / "none").exists(), "nothing was written, so nothing was made"


def test_a_text_with_test_sets_of_sacrebleu(
    news: tuple[LocalServer, Any], server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TEXTS, "wmt", replace(TEXTS["wmt"], tests=(("news/full", "en-de"),)))
    assert get(server, "wmt", tmp_path) == 0
    assert {p.name for p in tmp_path.iterdir()} >= {"corpus.de", "corpus.en", "news-full.de", "news-full.en"}


def test_a_text_of_mtdata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    entry = pytest.importorskip("mtdata.entry", reason="needs pip install 'dragoman[mtdata]'")
    name = "Somebody-sayings-1-deu-eng"
    lines = "".join(f"{german}\t{english}\n" for german, english in zip(GERMAN, ENGLISH, strict=True))
    with serving({"/sayings.tsv": lines.encode()}) as server:
        found = entry.Entry(entry.DatasetId.parse(name), url=f"{server.address}/sayings.tsv")
        index: Any = ModuleType("mtdata.index")  # the real one writes 150 MB into the home folder
        index.Entry = entry.Entry
        index.Index = SimpleNamespace(get_instance=lambda: SimpleNamespace(entries={found.did: found}))
        monkeypatch.setitem(sys.modules, "mtdata.index", index)
        monkeypatch.delitem(sys.modules, "mtdata.cache", raising=False)
        assert main(["download", f"mtdata:{name}", "--out", str(tmp_path)]) == 0
        assert list(read_pairs([str(tmp_path / name)], "en", "de")) == list(zip(ENGLISH, GERMAN, strict=True))
        assert "by mtdata, from http://127.0.0.1" in capsys.readouterr().err
        assert main(["download", "mtdata:Somebody-sayings-2-deu-eng", "--out", str(tmp_path)]) == 1
        assert "mtdata has no text" in capsys.readouterr().err
        assert main(["download", "mtdata:nonsense", "--out", str(tmp_path)]) == 1
        assert "nonsense: mtdata could not get it" in capsys.readouterr().err


def test_a_hub_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("datasets", reason="needs pip install 'dragoman[hub]'")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "sayings"
    folder.mkdir()
    rows = [{"translation": {"de": g, "en": e}} for g, e in zip(GERMAN, ENGLISH, strict=True)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["download", f"hf:{folder}:default:train", "--out", str(tmp_path / "data")]) == 0
    pairs = list(read_pairs([str(tmp_path / "data" / "sayings-default-train")], "en", "de"))
    assert pairs == list(zip(ENGLISH, GERMAN, strict=True))
    shown = capsys.readouterr().err
    assert shown.index("licence: not stated") < shown.index("wrote ")
    (folder / "train.jsonl").write_text('{"text": "no translation"}\n')
    assert main(["download", f"hf:{folder}:default:train", "--out", str(tmp_path / "data")]) == 1
    assert "has no column translation" in capsys.readouterr().err
    assert main(["download", f"hf:{tmp_path / 'none'}:default:train", "--out", str(tmp_path / "data")]) == 1
    assert "datasets could not get it" in capsys.readouterr().err
    assert main(["download", "hf:wmt14", "--out", str(tmp_path / "data")]) == 1
    assert "write hf:DATASET:CONFIG:SPLIT" in capsys.readouterr().err


# ---- the list


@pytest.mark.parametrize("name", SOURCES)
def test_each_text_has_a_description_a_licence_and_checksums(name: str) -> None:
    source = SOURCES[name]
    assert source.about
    assert source.licence
    assert source.home.startswith("https://")
    assert source.base.startswith("https://")
    for file in source.files:
        assert not file.address.startswith("/")
        assert len(file.sha256) == 64 or file.members, "what has no checksum is an archive, which has its own"
