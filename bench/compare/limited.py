# SPDX-License-Identifier: Apache-2.0
"""Both programs in memory groups of the same size, in turn: tokens/s, what is read from
storage, and who is killed. Bytes from storage are counted by the kernel: those of lowmem-run
behind the first token, those of llama.cpp over as much time at the end of the process as its
tokens took. A pass is the weights that a token needs: an embedding counts as one row."""
import contextlib
import json
import statistics
import sys

from compare.limited_run import (DISK, MEMORY, disk_limits, forget_pages, group, memory_limits,
                                 read_number, read_within, run_in, size)


def threads(arguments):
    return max(arguments.threads)


def llama_cpp_command(arguments):
    return [f"{arguments.peer}/llama-bench", "-m", arguments.gguf, "-t", str(threads(arguments)),
            "-p", "0", "-n", str(arguments.n), "-r", "1", "-o", "json"]


def lowmem_command(arguments, limit):
    return [arguments.lowmem, "--json", "-q", "-t", str(threads(arguments)),
            "-m", arguments.model, "bench", "-p", "1", "-n", str(arguments.n),
            "--modes", "auto", "--budgets", str(size(limit))]


def failure(arguments, code, oom_kills, limit):
    if code is None:
        return f"over {arguments.time_limit} s"
    if oom_kills:
        return f"killed at {limit}"
    return f"failed with {code}" if code else None


def run_llama_cpp(arguments, limit, disk):
    forget_pages(arguments.gguf)
    with group(MEMORY, memory_limits(size(limit))) as folder:
        out, code, reads = run_in([folder, *disk], llama_cpp_command(arguments),
                                  arguments.time_limit)
        oom_kills = read_number(f"{folder}/memory.oom_control", "oom_kill ")
        peak = read_number(f"{folder}/memory.max_usage_in_bytes")
    note = failure(arguments, code, oom_kills, limit)
    if note:
        return {"error": note}
    speed = json.loads(out)[0]["avg_ts"]
    return {"tokens_per_s": speed, "group_peak_bytes": peak,
            "storage_bytes_per_token": read_within(reads, arguments.n / speed) / arguments.n}


def run_lowmem(arguments, limit, disk):
    """bench makes a group of the budget by itself, below that of this process."""
    forget_pages(arguments.model)
    out, code, _ = run_in(disk, lowmem_command(arguments, limit), arguments.time_limit)
    run = json.loads(out)["runs"][0] if out else {}
    note = failure(arguments, code, run.get("oom_kills"), limit)
    if note:
        return {"error": run.get("error", note)}
    if run["limit_bytes"] != size(limit):
        sys.exit("lowmem-run made no memory group of its own")
    return {"tokens_per_s": run["decode_tokens_per_s"], "mode": run["mode"],
            "group_peak_bytes": run["group_peak_bytes"], "peak_bytes": run["vm_hwm_bytes"],
            "storage_bytes_per_token": run["storage_bytes_per_token"],
            "weight_bytes_per_token": run["bytes_read_per_token"],
            "prefill_passes": run["prefill_weight_passes"],
            "time_to_first_token_s": run["time_to_first_token_s"]}


def summary(runs, weight_bytes):
    """Medians of one program at one limit; the first failure instead, if there is one."""
    failed = [run["error"] for run in runs if "error" in run]
    if failed:
        return {"error": failed[0], "failures": len(failed)}
    row = dict(runs[0])
    for key, value in runs[0].items():
        if isinstance(value, (int, float)):
            row[key] = statistics.median(run[key] for run in runs)
    speeds = [run["tokens_per_s"] for run in runs]
    row.update(min=min(speeds), max=max(speeds),
               passes_per_token=row["storage_bytes_per_token"] / weight_bytes)
    return row


def compare(arguments):
    limits = arguments.limits.split(",")
    rounds = {limit: [] for limit in limits}
    with contextlib.ExitStack() as stack:
        disk = []
        if arguments.throttle:
            disk.append(stack.enter_context(
                group(DISK, disk_limits(arguments.gguf, size(arguments.throttle)))))
        for index in range(arguments.r):
            for limit in limits:
                rounds[limit].append((run_llama_cpp(arguments, limit, disk),
                                      run_lowmem(arguments, limit, disk)))
                print(f"round {index + 1} of {arguments.r}, {limit}", file=sys.stderr)
    weight_bytes = next((ours["weight_bytes_per_token"] for pairs in rounds.values()
                         for _, ours in pairs if "error" not in ours), float("nan"))
    result = {}
    for limit, pairs in rounds.items():
        result[limit] = {"llama.cpp": summary([pair[0] for pair in pairs], weight_bytes),
                         "lowmem-run": summary([pair[1] for pair in pairs], weight_bytes)}
        ratios = [ours["tokens_per_s"] / theirs["tokens_per_s"] for theirs, ours in pairs
                  if "error" not in theirs and "error" not in ours]
        if ratios:
            result[limit]["ratio"] = {"median": statistics.median(ratios), "min": min(ratios),
                                      "max": max(ratios)}
    return result


def lines(result, arguments):
    """The table, line by line."""
    throttle = f", disk at {arguments.throttle} a second" if arguments.throttle else ""
    yield (f"medians of {arguments.r} rounds, {arguments.n} tokens, {threads(arguments)} threads{throttle}")
    yield (f"{'limit':8}{'':12}{'tokens/s':>10}{'min':>9}{'max':>9}{'MB/token':>10}{'passes':>8}"
          f"{'group peak':>12}{'ratio':>8}")
    for limit, row in result.items():
        for program in ("llama.cpp", "lowmem-run"):
            figures = row[program]
            if "error" in figures:
                yield f"{limit:8}{program:12}{figures['error'][:70]}"
                continue
            ratio = row.get("ratio") if program == "lowmem-run" else None
            yield (f"{limit:8}{program:12}{figures['tokens_per_s']:10.3f}{figures['min']:9.3f}"
                  f"{figures['max']:9.3f}{figures['storage_bytes_per_token'] / 1e6:10.1f}"
                  f"{figures['passes_per_token']:8.2f}{figures['group_peak_bytes'] / 1e6:9.1f} MB"
                  + (f"{ratio['median']:8.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
                     if ratio else ""))
