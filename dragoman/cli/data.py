"""The verbs that bring, divide and check parallel text: download, split and check."""

import shutil
import textwrap
from pathlib import Path

from dragoman.cli.options import CheckConfig, DownloadConfig, SplitConfig
from dragoman.corpus_check.check import examine_text
from dragoman.datasets import PARTS
from dragoman.datasets import download as downloads
from dragoman.datasets import split as parts
from dragoman.runtime.console import NowAndThen, command, say
from dragoman.runtime.files import prepare_reports, write_json
from dragoman.text.corpus import locate_all


def download(config: DownloadConfig) -> int:
    """Download a text, or list what there is; returns the exit code."""
    if config.name:
        downloads.download(config.name, Path(config.out), config.mirror)
        return 0
    names: dict[str, list[str]] = {}
    for name, source in downloads.SOURCES.items():
        names.setdefault(source.about, []).append(name)
    entries = [(", ".join(alike), about) for about, alike in names.items()]
    entries += [(f"{library}:…", about) for library, about in downloads.LIBRARIES.items()]
    for name, about in entries:
        print(textwrap.fill(name, 79, break_on_hyphens=False))
        print(textwrap.indent(textwrap.fill(about, 75, break_on_hyphens=False), "    "))
    return 0


def split(config: SplitConfig) -> int:
    """Write the three parts of a text and say what is in them; returns the exit code."""
    counts = parts.split(config.text, config.source, config.target, Path(config.out), config.pairs)
    prefixes = {part: Path(config.out, part) for part in PARTS}
    for part, prefix in prefixes.items():
        say(f"{prefix}.{config.source}, {prefix}.{config.target}: {counts.pop(part):,} pairs")
    if counts:
        say("left out: " + ", ".join(f"{count:,} {reason}" for reason, count in counts.items()))
    options = [word for part, prefix in prefixes.items() for word in (f"--{part}", prefix)]
    say(f"next:\n  {command('check', '--source', config.source, '--target', config.target, *options)}")
    return 0


def check(config: CheckConfig) -> int:
    """Print what is wrong with parallel text; returns the exit code: 1 if there is an error."""
    corpora = locate_all([*config.train, *config.valid, *config.test], config.source, config.target)
    prepare_reports({"--json": config.json}, (path for corpus in corpora for path in corpus.paths))
    texts = (config.train, config.source, config.target, config.valid, config.test)
    found = examine_text(*texts, config.examples, NowAndThen(say))
    if config.json:
        write_json(Path(config.json), found.to_dict())
        say(f"wrote {config.json}")
    print(found.describe(shutil.get_terminal_size().columns), flush=True)
    if any(finding.severity == "error" for finding in found.findings):
        return 1
    given = {"--train": config.train, "--valid": config.valid, "--test": config.test}
    words = [word for option, names in given.items() if names for word in (option, *names)]
    words += ["--valid", "VALID"] if "," in f"{config.source}{config.target}" and not config.valid else []
    out = f"models/{config.source}-{config.target}".replace(",", "_")
    say(f"next:\n  {command('train', '--source', config.source, '--target', config.target, *words, '--out', out)}")
    return 0
