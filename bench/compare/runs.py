# SPDX-License-Identifier: Apache-2.0
"""One run of each program, in a process of its own, and the figures of what it printed."""
import json
import signal
import subprocess
import time


def output_of(command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        how = (f"failed with {done.returncode}" if done.returncode > 0 else
               f"was killed by {signal.Signals(-done.returncode).name}")
        said = done.stderr.decode(errors="replace")[-2000:].strip()
        raise RuntimeError(f"{' '.join(map(str, command))} {how}" + (f":\n{said}" if said else ""))
    return done.stdout


# ---- lowmem-run

def lowmem_bench(program, model, threads, prompt, new, modes):
    """{mode: run} as `lowmem-run bench` reports it, each mode in a fresh process."""
    out = output_of([program, "--json", "-q", "-t", threads, "-m", model, "bench",
                     "-p", prompt, "-n", new, "--modes", ",".join(modes)])
    return {run["mode"]: run for run in json.loads(out)["runs"]}


def lowmem_start(program, model, threads, prompt):
    """A process from its start to its end, with one token after a short prompt."""
    ids = ",".join(str(11 + i) for i in range(prompt))
    begin = time.monotonic()
    out = output_of([program, "--json", "-q", "-t", threads, "--mode", "mmap", "-m", model,
                     "generate", "--prompt-ids", ids, "-n", "1", "--ignore-eos"])
    wall_s = time.monotonic() - begin
    stats = json.loads(out)["stats"]
    return {"wall_s": wall_s, "load_s": stats["load_s"],
            "time_to_first_token_s": stats["time_to_first_token_s"]}


# ---- llama.cpp

def llama_speed(rows, key):
    """Tokens/s of the test that has `key` (n_prompt, n_gen) in what llama-bench printed."""
    return next(row["avg_ts"] for row in rows if row[key])


def llama_decode(programs, model, threads, context, new):
    out = output_of([f"{programs}/llama-bench", "-m", model, "-t", threads, "-p", 0, "-n", new,
                     "-d", context, "-r", 1, "-o", "json"])
    return llama_speed(json.loads(out), "n_gen")


def llama_prefill(programs, model, threads, prompt):
    out = output_of([f"{programs}/llama-bench", "-m", model, "-t", threads, "-p", prompt,
                     "-n", 0, "-r", 1, "-o", "json"])
    return llama_speed(json.loads(out), "n_prompt")


def llama_start(programs, model, threads, prompt):
    begin = time.monotonic()
    out = output_of([f"{programs}/llama-bench", "-m", model, "-t", threads, "-p", 0, "-n", 0,
                     "-pg", f"{prompt},1", "-r", 1, "--no-warmup", "-o", "json"])
    wall_s = time.monotonic() - begin
    return {"wall_s": wall_s, "first_token_s": json.loads(out)[0]["avg_ns"] / 1e9}


# ---- the machine

def limits_of(report):
    """{("huge", threads): bytes/s, ("single", threads): bytes/s, ("peak", threads): FLOP/s}:
    the fastest way to read, out of what limits_bench printed."""
    limits = {}
    for row in report["benchmarks"]:
        parts = dict(part.split(":") for part in row["name"].split("/") if ":" in part)
        kind, figure = (parts["pages"], row["bytes_per_second"]) if "pages" in parts else (
            "peak", row["FLOPS"])
        key = kind, int(parts["threads"])
        limits[key] = max(limits.get(key, 0), figure)
    return limits


def machine_limits(program, test, threads, read_bytes):
    """Of PlainRead or MultiplyAdd, as `limits_of`."""
    out = output_of([program, "--benchmark_format=json", "--benchmark_min_time=0.1",
                     f"--benchmark_filter={test}", f"--read_bytes={read_bytes}",
                     f"--threads={threads}"])
    return limits_of(json.loads(out))
