"""A model in the browser: does it translate as Dragoman does, how soon and how fast, beside CTranslate2 in int8.

    python benchmarks/web.py MODEL PREFIX NODE_MODULES [--sentences 1000]

PREFIX is source and target text, NODE_MODULES a folder with the transformers.js of `export --to web`. MODEL is written
as a site in float32 and in 8 bits. Headless Chromium, which reaches nothing but the site, loads each with an empty
cache, again with a full one, and translates the text greedily, one by one, on one thread. So does CTranslate2.
Prints the figures and stores them in benchmarks/results/web.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from hardware import describe_hardware

from dragoman.checkpoint import ModelFolder, fingerprint
from dragoman.config import SearchConfig
from dragoman.evaluation.scores import evaluate
from dragoman.folder import WEIGHTS_FILE
from dragoman.inference.translator import Translator
from dragoman.interop import web
from dragoman.text.corpus import read_pairs

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "web.json"
sys.path.insert(0, str(ROOT))

from tests.browser import start  # noqa: E402
from tests.interop.sites import build, call, serving, visit  # noqa: E402

GREEDY = SearchConfig(beam=1, sentences="keep")
FIRST = "backend.translate({ text: given[0], sentences: 'keep' })"
ALL = """(async () => {
  const texts = [], began = performance.now();
  for (const text of given[0]) texts.push((await backend.translate({ text, sentences: "keep" })).text);
  return [texts, (performance.now() - began) / 1000];
})()"""


def in_browser(site: Path, sources: list[str]) -> dict[str, Any]:
    """Figures of a site: seconds to the first translation, without and with a cache, and sentences per second."""
    browser = start()
    browser.set_script_timeout(3600)
    try:
        with serving(site) as served:
            seconds = []
            for _ in range(2):
                began = time.perf_counter()
                if message := visit(browser, served.address):
                    sys.exit(message)
                call(browser, FIRST, sources[0])
                seconds.append(round(time.perf_counter() - began, 2))
            texts, duration = call(browser, ALL, sources[1:])
        version = browser.capabilities["browserVersion"]
    finally:
        browser.quit()
    speed = round((len(sources) - 1) / duration, 1)
    first = dict(zip(("first_visit_seconds", "next_visit_seconds"), seconds, strict=True))
    return {"chromium": version, **first, "sentences_per_second": speed, "texts": texts}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text")
    parser.add_argument("assets")
    parser.add_argument("--sentences", type=int, default=1000)
    arguments = parser.parse_args()
    web.check_assets(arguments.assets)
    loaded = ModelFolder.load(arguments.model)
    language = loaded.direction.target
    pairs = list(islice(read_pairs([arguments.text], loaded.direction.source, language), arguments.sentences + 1))
    sources, references = [source for source, _ in pairs], [target for _, target in pairs[1:]]
    ours = [found.text for found in Translator(loaded).translate(sources[1:], GREEDY)]
    fast = Translator.load(arguments.model, "cpu", "ctranslate2", workers=1)
    fast.translate(sources[:1], GREEDY)
    began = time.perf_counter()
    texts = [fast.translate([source], GREEDY)[0].text for source in sources[1:]]
    speed = round(len(texts) / (time.perf_counter() - began), 1)
    results: dict[str, dict[str, Any]] = {"ctranslate2 int8": {"sentences_per_second": speed, "texts": texts}}
    with tempfile.TemporaryDirectory() as folder:
        for quantization in ("float32", "int8"):
            site = build(loaded, Path(folder, quantization), arguments.assets, quantization)
            model = [path.read_bytes() for path in (site / web.MODEL).rglob("*") if path.is_file()]
            sizes = (sum(map(len, files)) for files in (model, map(gzip.compress, model)))
            megabytes = dict(
                zip(("model_mb", "model_gzipped_mb"), (round(size / 1e6, 1) for size in sizes), strict=True)
            )
            results[f"browser {quantization}"] = megabytes | in_browser(site, sources)
    for name, result in results.items():
        found = result.pop("texts")
        result["identical"] = sum(here == there for here, there in zip(ours, found, strict=True))
        result["bleu"] = round(evaluate(found, references, language)["bleu"], 2)
        print(f"{name}: {result}", flush=True)
    known = {
        "model": fingerprint(arguments.model / WEIGHTS_FILE),
        "parameters": loaded.model.num_parameters,
        "package": web.PACKAGE,
    }
    known |= {"text": Path(arguments.text).name, "sentences": len(references)}
    known["bleu"] = round(evaluate(ours, references, language)["bleu"], 2)
    print(f"dragoman, float32: BLEU {known['bleu']}")
    RESULT.write_text(json.dumps({"hardware": describe_hardware(), **known, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
