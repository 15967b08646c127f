"""The HTTP server beside LibreTranslate: requests a second, latencies, a soak and an overload.

    python benchmarks/serve.py MODEL TEXT [--rounds 3] [--seconds 10] [--soak 10] [--libretranslate FOLDER]

MODEL is a model folder, TEXT a file of sentences. All servers have the same model in int8 (LibreTranslate as an Argos
package), the same sentences, and one process; they are asked in turn, round after round, by clients of which each waits
for its answer before it asks again. LibreTranslate runs as it comes, and tuned: then each translation has one thread,
and as many are computed at once as there are cores, as in Dragoman. FOLDER is an environment with LibreTranslate
(.bench/libretranslate, which `make bench-serve` makes). Then the server alone: at 80 % of its capacity for --soak
minutes, and at three times of it, with requests that come whether or not the earlier ones were answered. Its capacity
is what 16 clients get in the slowest ten seconds of two minutes, as machines that are shared have slow moments. Writes
benchmarks/results/serve.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from hardware import describe_hardware
from rich.console import Console

from dragoman.folder import read_description

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "serve.json"
CLIENTS = {"sentences": (1, 8, 16, 64), "lists of 50": (1, 8)}
TEXTS = {"sentences": 1, "lists of 50": 50}
TUNED = {"ARGOS_INTRA_THREADS": "1", "ARGOS_INTER_THREADS": str(os.cpu_count())}
CONSOLE = Console(width=100, highlight=False)


class Client:
    """One client with an open connection, to 127.0.0.1 alone."""

    def __init__(self, port: int, languages: tuple[str, str]) -> None:
        self._port, self._languages = port, languages
        self._connection = HTTPConnection("127.0.0.1", port, timeout=300)

    def ask(self, texts: list[str]) -> tuple[int, float]:
        """Status (0: no answer) and seconds of one request."""
        source, target = self._languages
        body = json.dumps({"q": texts if len(texts) > 1 else texts[0], "source": source, "target": target})
        opened = self._connection.sock
        if opened and select.select([opened], [], [], 0)[0]:  # closed by the server while it was idle
            self._connection.close()
        start = time.perf_counter()
        try:
            self._connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            answer.read()
            return answer.status, time.perf_counter() - start
        except (OSError, HTTPException):
            self._connection.close()
            return 0, time.perf_counter() - start


def closed_loop(
    port: int, languages: tuple[str, str], lines: list[str], clients: int, size: int, seconds: float
) -> Any:
    """Clients that ask again as soon as they are answered."""
    end = time.perf_counter() + seconds

    def work(seed: int) -> list[tuple[int, float]]:
        draw, client, found = random.Random(seed), Client(port, languages), []
        while time.perf_counter() < end:
            found.append(client.ask(draw.choices(lines, k=size)))
        return found

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = [one for some in pool.map(work, range(clients)) for one in some]
    return summary(found, time.perf_counter() - start)


def open_loop(
    port: int, languages: tuple[str, str], lines: list[str], rate: float, seconds: float
) -> list[tuple[int, float]]:
    """Requests at a constant rate, whether or not the earlier ones were answered."""
    draw, start = random.Random(0), time.perf_counter()
    idle: list[Client] = []

    def work(line: str) -> tuple[int, float]:
        client = idle.pop() if idle else Client(port, languages)
        answer = client.ask([line])
        idle.append(client)
        return answer

    with ThreadPoolExecutor(512) as pool:
        tasks = []
        for number in range(int(rate * seconds)):
            time.sleep(max(0.0, start + number / rate - time.perf_counter()))
            tasks.append(pool.submit(work, draw.choice(lines)))
        return [task.result() for task in tasks]


def soak(server: Any, port: int, languages: tuple[str, str], lines: list[str], rate: float, minutes: float) -> Any:
    """Requests at a constant rate, and the server's memory before them and after each sixth."""
    memory, found = [resident(server)], []
    for _ in range(6):
        found += open_loop(port, languages, lines, rate, 10 * minutes)
        memory.append(resident(server))
    return {"minutes": minutes, "rate": rate, "memory_mib": memory, **summary(found, 60 * minutes)}


def summary(found: list[tuple[int, float]], seconds: float) -> dict[str, Any]:
    """Requests a second and percentiles, in milliseconds, of the answers with 200."""
    times = sorted(1000 * spent for status, spent in found if status == 200) or [float("nan")]
    statuses = {str(status): count for status, count in Counter(status for status, _ in found).items() if status != 200}
    place = {name: times[min(len(times) - 1, int(len(times) * share))] for name, share in
             (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}  # fmt: skip
    return {"per_second": sum(s == 200 for s, _ in found) / seconds, **place, "others": statuses}


def resident(process: subprocess.Popen[bytes]) -> float:
    """MiB of a process and its children."""
    found = subprocess.run(["ps", "-o", "rss=", "--pid", str(process.pid), "--ppid", str(process.pid)],
                           capture_output=True, text=True, check=True).stdout  # fmt: skip
    return sum(map(int, found.split())) / 1024


@contextmanager
def running(command: list[str], port: int, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A server, once it answers."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            time.sleep(0.2)
            if process.poll() is not None:
                raise SystemExit(f"{' '.join(command)}: ended")
            try:
                connection = HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/languages")
                if connection.getresponse().status == 200:
                    break
            except (OSError, HTTPException):
                pass
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@contextmanager
def libretranslate(
    folder: Path, model: Path, languages: tuple[str, str], port: int, settings: dict[str, str]
) -> Iterator[Any]:
    """LibreTranslate with the model as its only package, and settings in its environment."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        data = home / "share" / "argos-translate"
        (data / "packages").mkdir(parents=True)
        export = [sys.executable, "-m", "dragoman", "export", str(model), "--to", "argos", "--quantization", "int8"]
        subprocess.run([*export, "--out", str(home / "package")], check=True, cwd=ROOT)
        with zipfile.ZipFile(next((home / "package").glob("*.argosmodel"))) as package:
            package.extractall(data / "packages")
        (data / "index.json").write_text("[]")
        environment = os.environ | settings | {"HOME": place, "XDG_DATA_HOME": str(home / "share")}
        environment |= {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "CACHE")}
        command = [str(folder / "bin" / "libretranslate"), "--load-only", ",".join(languages), "--port", str(port)]
        command += ["--threads", "64", "--disable-files-translation", "--host", "127.0.0.1"]
        with running(command, port, environment) as process:
            yield process


def report(name: str, found: dict[str, Any]) -> None:
    """Print one line."""
    CONSOLE.print(f"{name:<44} {found['per_second']:8.1f}/s   p50 {found['p50']:7.1f}   p95 {found['p95']:7.1f}   "
                  f"p99 {found['p99']:7.1f} ms   {found['others'] or ''}")  # fmt: skip


def median_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each number, and all answers other than 200."""
    numbers = {name: statistics.median(one[name] for one in rounds) for name in ("per_second", "p50", "p95", "p99")}
    return numbers | {"others": dict(sum((Counter(one["others"]) for one in rounds), Counter()))}


def compare(ports: dict[str, int], languages: tuple[str, str], lines: list[str], options: Any) -> dict[str, Any]:
    """All servers in turn at every number of clients; medians of the rounds."""
    results: dict[str, Any] = {}
    for kind, size in TEXTS.items():
        for clients in CLIENTS[kind]:
            rounds: dict[str, list[Any]] = {server: [] for server in ports}
            for _ in range(options.rounds):
                for server, port in ports.items():
                    rounds[server].append(closed_loop(port, languages, lines, clients, size, options.seconds))
            for server, of_server in rounds.items():
                found = results.setdefault(server, {}).setdefault(kind, {})[str(clients)] = median_of(of_server)
                report(f"{server}, {kind}, {clients} clients", found)
    return results


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="of a measurement (10)")
    parser.add_argument("--soak", type=float, default=10, help="minutes at 80 %% of the capacity (10)")
    parser.add_argument("--libretranslate", type=Path, default=ROOT / ".bench" / "libretranslate")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    lines = [line.strip() for line in options.text.read_text(encoding="utf-8").splitlines() if line.strip()]
    direction = read_description(options.model)[2]
    languages = (direction.source, direction.target)
    ours = [sys.executable, "-m", "dragoman", "serve", str(options.model), "--port", "5061"]
    results: dict[str, Any] = {"rounds": options.rounds, "seconds": options.seconds}
    with running(ours, 5061, dict(os.environ)) as server:
        ports = {"dragoman": 5061}
        if (options.libretranslate / "bin" / "libretranslate").is_file():
            given = (options.libretranslate, options.model, languages)
            with libretranslate(*given, 5062, TUNED), libretranslate(*given, 5063, {}):
                ports |= {"libretranslate tuned": 5062, "libretranslate": 5063}
                results |= compare(ports, languages, lines, options)
            asked = "from importlib.metadata import version; print(version('libretranslate'))"
            told = subprocess.run(
                [options.libretranslate / "bin" / "python", "-c", asked], capture_output=True, text=True
            )
            results["libretranslate"]["version"] = told.stdout.strip()
        else:
            CONSOLE.print(f"no LibreTranslate in {options.libretranslate}")
            results |= compare(ports, languages, lines, options)
        periods = [closed_loop(5061, languages, lines, 16, 1, 10)["per_second"] for _ in range(12)]
        capacity = min(periods)
        results["capacity"] = {"slowest": capacity, "median": statistics.median(periods), "fastest": max(periods)}
        if options.soak:
            results["soak"] = soak(server, 5061, languages, lines, 0.8 * capacity, options.soak)
            memory = " ".join(f"{mib:.0f}" for mib in results["soak"]["memory_mib"])
            report(f"soak, {options.soak:g} minutes, MiB {memory}", results["soak"])
        start = time.perf_counter()
        answers = open_loop(5061, languages, lines, 3 * capacity, 2 * options.seconds)
        found = summary(answers, time.perf_counter() - start)
        results["overload"] = {"rate": 3 * capacity, **found}
        report("three times the capacity", found)
    content = {"command": "make demo bench-serve", "hardware": describe_hardware(), "result": results}
    options.results.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
