# SPDX-License-Identifier: Apache-2.0
"""Medians and spreads of rounds, as JSON and as a table."""
import statistics


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summarize(rows):
    """[{part, model, mode, threads, figure: {median, min, max}...}] of Samples.rows."""
    return [dict(part=part, model=model, mode=mode, threads=threads,
                 **{name: spread(values) for name, values in figures.items()})
            for (part, model, mode, threads), figures in rows.items()]


HEADS = {
    "decode": ("decode, behind 32 tokens", ("tokens/s", "GB/s", "of read", "llama.cpp")),
    "prefill": ("prefill, 512 tokens", ("tokens/s", "GFLOP/s", "of peak", "llama.cpp")),
    "start": ("start, files cached, 8 tokens and 1",
              ("load ms", "first ms", "wall ms", "llama.cpp")),
    "context": ("decode, to 4096 tokens",
                ("tokens/s", "of short", "bound", "llama.cpp", "of short", "bound")),
    "limit": ("the machine", ("GB/s", "GFLOP/s")),
}


def cells(row):
    """The figures of a row as HEADS names them, as text."""
    def show(name, scale=1.0, digits=1):
        return f"{row[name]['median'] * scale:.{digits}f}" if name in row else ""

    if row["part"] == "limit":
        is_peak = row["mode"] == "peak"
        return ["" if is_peak else show("per_s", 1e-9), show("per_s", 1e-9) if is_peak else ""]
    if row["part"] == "start":
        return [show("load_s", 1e3), show("time_to_first_token_s", 1e3), show("wall_s", 1e3),
                show("peer_wall_s", 1e3)]
    if row["part"] == "context":
        return [show("tokens_per_s"), show("kept", digits=2), show("bound", digits=2),
                show("peer_tokens_per_s"), show("peer_kept", digits=2),
                show("peer_bound", digits=2)]
    rate = "bytes_per_s" if row["part"] == "decode" else "flops_per_s"
    return [show("tokens_per_s"), show(rate, 1e-9), show("of_limit", 100, 0) + " %",
            show("peer_tokens_per_s")]


def lines(summary, facts, num_rounds):
    """The table, line by line; rows of a part and model together."""
    yield (f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_bytes'] / 2**30:.0f} GiB, "
           f"Linux {facts['kernel']}, pages of {facts['page_bytes']}, "
           f"huge pages {facts['huge_pages']} (defrag {facts['huge_pages_defrag']}), "
           f"load {facts['load']:.1f} before")
    yield f"medians of {num_rounds} rounds; ratio: tokens/s (start: wall time) against llama.cpp"
    for part, (title, heads) in HEADS.items():
        rows = [row for row in summary if row["part"] == part]
        if not rows:
            continue
        ratio = "   ratio (min to max)" if part != "limit" else ""
        yield ""
        yield f"{title:36}{'mode':7}{'thr':>4}" + "".join(f"{head:>11}" for head in heads) + ratio
        for row in sorted(rows, key=lambda row: row["model"]):
            yield (f"{row['model']:36}{row['mode']:7}{row['threads']:4}"
                   + "".join(f"{cell:>11}" for cell in cells(row))
                   + ("   {median:.2f} ({min:.2f} to {max:.2f})".format(**row["ratio"])
                      if "ratio" in row else ""))
