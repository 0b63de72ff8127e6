# SPDX-License-Identifier: Apache-2.0
"""Rounds of runs, both programs in turn, and rows of a table out of them."""
from compare import machine, runs, subjects

PARTS = ("decode", "prefill", "start", "context")
SHORT_CONTEXT, LONG_CONTEXT = 32, 4096
PREFILL_TOKENS = 512
START_TOKENS = 8
LONG_NEW_TOKENS = 32
PAGES = {"mmap": "single", "copy": "huge"}


class Samples:
    """What each round gave for a row: {row: {figure: [a value for each round]}}, and what a
    program said that failed: the others go on."""

    def __init__(self):
        self.rows = {}
        self.failures = []

    def add(self, row, **figures):
        samples = self.rows.setdefault(row, {})
        for name, value in figures.items():
            samples.setdefault(name, []).append(value)


def in_turn(first_is_theirs, theirs, ours):
    """Runs both; who is first changes from round to round."""
    if first_is_theirs:
        their_figures = theirs()
        return their_figures, ours()
    our_figures = ours()
    return theirs(), our_figures


def read_bytes(options, subject):
    """As many as a token reads, where half of the free memory has room for them."""
    weight_bytes = subjects.info(options.lowmem, subject.ours)["model_bytes"]
    return max(1 << 20, min(weight_bytes, machine.memory("MemAvailable") // 2))


def measured_limits(samples, options, subject, test, threads):
    """Right before the runs that are held against them: machines drift."""
    limits = runs.machine_limits(options.limits_bench, test, threads, read_bytes(options, subject))
    for (kind, _), figure in limits.items():
        samples.add(("limit", subject.name, kind, threads), per_s=figure)
    return {kind: figure for (kind, _), figure in limits.items()}


def decode(samples, options, subject, threads, turn):
    """Both modes and llama.cpp behind a short context."""
    limits = measured_limits(samples, options, subject, "PlainRead", threads)
    theirs, ours = in_turn(
        turn,
        lambda: runs.llama_decode(options.peer, subject.theirs, threads, SHORT_CONTEXT, options.n),
        lambda: runs.lowmem_bench(options.lowmem, subject.ours, threads, SHORT_CONTEXT, options.n,
                                  list(PAGES)))
    for mode, run in ours.items():
        speed = run["decode_tokens_per_s"]
        bytes_per_s = speed * run["bytes_read_per_token"]
        samples.add(("decode", subject.name, mode, threads), tokens_per_s=speed,
                    bytes_per_s=bytes_per_s,
                    of_limit=bytes_per_s / limits[PAGES[mode]],
                    peer_tokens_per_s=theirs, ratio=speed / theirs)


def prefill(samples, options, subject, threads, turn):
    limits = measured_limits(samples, options, subject, "MultiplyAdd", threads)
    theirs, ours = in_turn(
        turn,
        lambda: runs.llama_prefill(options.peer, subject.theirs, threads, PREFILL_TOKENS),
        lambda: runs.lowmem_bench(options.lowmem, subject.ours, threads, PREFILL_TOKENS, 1,
                                  ["copy"])["copy"]["prefill_tokens_per_s"])
    shape = subjects.info(options.lowmem, subject.ours)
    flops_per_s = subjects.prefill_flops(shape, PREFILL_TOKENS) / PREFILL_TOKENS * ours
    samples.add(("prefill", subject.name, "copy", threads), tokens_per_s=ours,
                flops_per_s=flops_per_s, of_limit=flops_per_s / limits["peak"],
                peer_tokens_per_s=theirs, ratio=ours / theirs)


def start(samples, options, subject, threads, turn):
    """With the files in the page cache; the ratio is how many times faster."""
    subjects.warm(subject.ours)
    subjects.warm(subject.theirs)
    theirs, ours = in_turn(
        turn, lambda: runs.llama_start(options.peer, subject.theirs, threads, START_TOKENS),
        lambda: runs.lowmem_start(options.lowmem, subject.ours, threads, START_TOKENS))
    samples.add(("start", subject.name, "mmap", threads), **ours, peer_wall_s=theirs["wall_s"],
                peer_first_token_s=theirs["first_token_s"],
                ratio=theirs["wall_s"] / ours["wall_s"])


def context(samples, options, subject, threads, turn):
    """What a long context leaves of the speed behind a short one."""
    def ours(prompt):
        return runs.lowmem_bench(options.lowmem, subject.ours, threads, prompt, LONG_NEW_TOKENS,
                                 ["copy"])["copy"]

    def theirs(prompt):
        return runs.llama_decode(options.peer, subject.theirs, threads, prompt, LONG_NEW_TOKENS)

    long_prompt = LONG_CONTEXT - LONG_NEW_TOKENS
    their_short, our_short = in_turn(turn, lambda: theirs(SHORT_CONTEXT),
                                     lambda: ours(SHORT_CONTEXT))
    their_long, our_long = in_turn(turn, lambda: theirs(long_prompt), lambda: ours(long_prompt))
    our_kv, their_kv = subjects.kv_bytes_per_token(subjects.info(options.lowmem, subject.ours))
    weight_bytes = our_short["bytes_read_per_token"]
    middle = LONG_CONTEXT - LONG_NEW_TOKENS // 2
    our_speed, short_speed = our_long["decode_tokens_per_s"], our_short["decode_tokens_per_s"]
    samples.add(("context", subject.name, "copy", threads), tokens_per_s=our_speed,
                kept=our_speed / short_speed,
                bound=subjects.context_bound(weight_bytes, our_kv, middle),
                peer_tokens_per_s=their_long, peer_kept=their_long / their_short,
                peer_bound=subjects.context_bound(weight_bytes, their_kv, middle),
                ratio=our_speed / their_long)


def measure_round(samples, options, subject, turn, say):
    """One round of one subject."""
    all_threads = max(options.threads)
    parts = []
    for threads in options.threads:
        parts += [("decode", decode, threads), ("prefill", prefill, threads)]
    parts.append(("start", start, all_threads))
    # Thousands of tokens of prompt each: not for every way of storing weights.
    if subject.name in options.context_models:
        parts.append(("context", context, all_threads))
    for name, part, threads in parts:
        if name not in options.only:
            continue
        say(f"{name}, {threads} threads")
        try:
            part(samples, options, subject, threads, turn)
        except RuntimeError as error:
            samples.failures.append(str(error))
            say(f"{name}, {threads} threads: {error}")
