"""The tables that compare the HTTP server with LibreTranslate, in Markdown."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]
SERVERS = {
    "dragoman": "Dragoman",
    "libretranslate tuned": "LibreTranslate, tuned",
    "libretranslate": "LibreTranslate, as it comes",
}


def is_serving(record: Record) -> bool:
    """Whether a results file measures the server."""
    return "overload" in record["result"]


def serving_tables(record: Record) -> str:
    """Return the comparison, and what a soak and an overload showed."""
    result = record["result"]
    overload = result["overload"]
    lines = [
        comparison(record),
        "",
        "Tuned, LibreTranslate gives each translation one thread (`ARGOS_INTRA_THREADS=1`), and computes as many at "
        "once as there are cores (`ARGOS_INTER_THREADS`).",
        "",
    ]
    if "soak" in result:
        soak = result["soak"]
        capacity, memory = result["capacity"], ", ".join(f"{mib:,.0f}" for mib in soak["memory_mib"])
        lines += [
            f"Capacity: 16 clients got {capacity['slowest']:.0f} requests a second in the slowest ten seconds of two "
            f"minutes, {capacity['median']:.0f} in the median. {soak['minutes']:g} minutes with {soak['rate']:.0f} a "
            f"second, 80 % of that: p50 {soak['p50']:.0f}, p95 {soak['p95']:.0f}, p99 {soak['p99']:.0f} ms, "
            f"{unanswered(soak)}. Memory before and after each sixth of the time: {memory} MiB.",
            "",
        ]
    lines.append(
        f"With {overload['rate']:,.0f} requests a second, three times the capacity: {overload['per_second']:.0f} a "
        f"second answered (p50 {overload['p50']:,.0f}, p99 {overload['p99']:,.0f} ms), {unanswered(overload)}."
    )
    return "\n".join(lines)


def unanswered(found: Record) -> str:
    """Return how many requests were refused, and how many failed."""
    refused = found["others"].get("503", 0)
    failed = sum(found["others"].values()) - refused
    return f"{f'{refused:,}' if refused else 'none'} refused with 503, {failed or 'none'} failed"


def comparison(record: Record) -> str:
    """Return the table of all servers."""
    result, names = record["result"], [name for name in SERVERS if name in record["result"]]
    rows = [
        "| requests a second (p50, p95, p99 in ms) | " + " | ".join(SERVERS[name] for name in names) + " |",
        "|---|" + "---:|" * len(names),
    ]
    for kind, by_clients in result["dragoman"].items():
        for clients in by_clients:
            found = " | ".join(cell(result[name][kind][clients]) for name in names)
            rows.append(f"| {kind}, {clients} client{'s' * (clients != '1')} | {found} |")
    return "\n".join(rows)


def cell(found: Record) -> str:
    """Return what a server did."""
    times = ", ".join(f"{found[name]:,.0f}" for name in ("p50", "p95", "p99"))
    return f"{found['per_second']:,.{0 if found['per_second'] > 20 else 1}f} ({times})"
