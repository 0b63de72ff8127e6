# SPDX-License-Identifier: Apache-2.0
"""What compare_llama_cpp makes of the figures of its runs, without running any peer."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from compare import limited, machine, measure, peer, runs, subjects, table  # noqa: E402

SHAPE = {"num_layers": 2, "dim": 8, "ff_dim": 16, "num_heads": 2, "num_kv_heads": 1,
         "head_dim": 4, "vocab_size": 100, "model_bytes": 5000,
         "forecast": {"copy": {"kv_bytes_per_token": 64}}}


class FiguresTest(unittest.TestCase):
    def test_prefill_counts_layers_for_each_token_and_the_head_once(self):
        layer = 8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16  # q, k and v, output, feed-forward
        self.assertEqual(subjects.prefill_flops(SHAPE, 10), 2 * (10 * 2 * layer + 8 * 100))

    def test_keys_and_values_of_each_program(self):
        self.assertEqual(subjects.kv_bytes_per_token(SHAPE), (64, 2 * 2 * 2 * 1 * 4))

    def test_context_bound(self):
        self.assertEqual(subjects.context_bound(300, 1, 100), 0.75)

    def test_spread(self):
        self.assertEqual(table.spread([3, 1, 2, 10]), {"median": 2.5, "min": 1, "max": 10})

    def test_fields_of_proc(self):
        self.assertEqual(machine.field("a\t: 1\nmodel name\t: X: Y\n", "model name"), "X: Y")
        self.assertIsNone(machine.field("a: 1\n", "b"))


class OutputTest(unittest.TestCase):
    def test_limits_are_the_fastest_way_to_read(self):
        report = {"benchmarks": [
            {"name": "PlainRead/pages:huge/streams:1/threads:2/real_time", "bytes_per_second": 5},
            {"name": "PlainRead/pages:huge/streams:4/threads:2/real_time", "bytes_per_second": 9},
            {"name": "PlainRead/pages:single/streams:4/threads:1/real_time",
             "bytes_per_second": 4},
            {"name": "MultiplyAdd/threads:2/real_time", "FLOPS": 70}]}
        self.assertEqual(runs.limits_of(report),
                         {("huge", 2): 9, ("single", 1): 4, ("peak", 2): 70})

    def test_speed_of_the_test_that_was_asked_for(self):
        rows = [{"n_prompt": 512, "n_gen": 0, "avg_ts": 100}, {"n_prompt": 0, "n_gen": 8,
                                                               "avg_ts": 20}]
        self.assertEqual(runs.llama_speed(rows, "n_gen"), 20)
        self.assertEqual(runs.llama_speed(rows, "n_prompt"), 100)

    def test_killed_program_is_named_with_its_signal(self):
        with self.assertRaisesRegex(RuntimeError, "sh.*was killed by SIGILL$"):
            runs.output_of(["sh", "-c", "kill -ILL $$"])

    def test_failed_program_is_named_with_what_it_said(self):
        with self.assertRaisesRegex(RuntimeError, "(?s)sh.*failed with 3.*no such model"):
            runs.output_of(["sh", "-c", "echo no such model >&2; exit 3"])


class RoundTest(unittest.TestCase):
    """Whole rounds, with figures in place of runs."""

    def setUp(self):
        self.asked = []

        def bench(program, model, threads, prompt, new, modes):
            self.asked.append("ours")
            return {mode: {"decode_tokens_per_s": 20.0 if prompt < 1000 else 10.0,
                           "prefill_tokens_per_s": 200.0, "bytes_read_per_token": 1e9}
                    for mode in modes}

        def theirs(speed):
            def run(programs, model, threads, *sizes):
                self.asked.append("theirs")
                return speed
            return run

        for name, stand_in in {
                "runs.lowmem_bench": bench,
                "runs.lowmem_start": lambda *_: {"wall_s": 0.2, "load_s": 0.1,
                                                 "time_to_first_token_s": 0.15},
                "runs.llama_decode": theirs(16.0), "runs.llama_prefill": theirs(400.0),
                "runs.llama_start": lambda *_: {"wall_s": 0.5, "first_token_s": 0.3},
                "runs.machine_limits": lambda program, test, *_: {
                    "PlainRead": {("huge", 1): 40e9, ("single", 1): 25e9},
                    "MultiplyAdd": {("peak", 1): 1e9}}[test],
                "subjects.info": lambda *_: SHAPE, "subjects.warm": lambda path: None}.items():
            patch = mock.patch(f"compare.{name}", stand_in)
            patch.start()
            self.addCleanup(patch.stop)

    def measure(self, only, turns=(True,)):
        options = SimpleNamespace(only=only, threads=[1], n=8, lowmem="", peer="", limits_bench="",
                                  context_models=["m"])
        samples = measure.Samples()
        for turn in turns:
            measure.measure_round(samples, options, subjects.Subject("m", Path(), Path()), turn,
                                  lambda what: None)
        self.failures = samples.failures
        return {(row["part"], row["mode"]): row for row in table.summarize(samples.rows)}

    def test_decode_is_held_against_a_read_in_the_pages_of_its_mode(self):
        rows = self.measure(["decode"])
        self.assertAlmostEqual(rows["decode", "copy"]["of_limit"]["median"], 0.5)
        self.assertAlmostEqual(rows["decode", "mmap"]["of_limit"]["median"], 0.8)
        self.assertAlmostEqual(rows["decode", "mmap"]["ratio"]["median"], 1.25)

    def test_prefill_is_held_against_multiply_adds(self):
        row = self.measure(["prefill"])["prefill", "copy"]
        flops = subjects.prefill_flops(SHAPE, 512) / 512 * 200.0
        self.assertAlmostEqual(row["of_limit"]["median"], flops / 1e9)
        self.assertAlmostEqual(row["ratio"]["median"], 0.5)

    def test_start_is_a_ratio_of_wall_times(self):
        self.assertAlmostEqual(self.measure(["start"])["start", "mmap"]["ratio"]["median"], 2.5)

    def test_context_is_a_share_of_the_speed_behind_a_short_one(self):
        row = self.measure(["context"])["context", "copy"]
        self.assertAlmostEqual(row["kept"]["median"], 0.5)
        self.assertAlmostEqual(row["peer_kept"]["median"], 1.0)
        self.assertAlmostEqual(row["bound"]["median"], 1e9 / (1e9 + 64 * 4080))

    def test_who_is_first_changes_from_round_to_round(self):
        self.measure(["prefill"], turns=(True, False))
        self.assertEqual(self.asked, ["theirs", "ours", "ours", "theirs"])

    def test_a_run_that_fails_does_not_end_the_others(self):
        def crash(*_):
            raise RuntimeError("llama-bench was killed by SIGILL")
        with mock.patch("compare.runs.llama_prefill", crash):
            rows = self.measure(["decode", "prefill"])
        self.assertIn(("decode", "copy"), rows)
        self.assertNotIn(("prefill", "copy"), rows)
        self.assertEqual(self.failures, ["llama-bench was killed by SIGILL"])

    def test_table_has_a_line_for_each_row(self):
        rows = list(self.measure(measure.PARTS).values())
        text = "\n".join(table.lines(rows, machine.facts(), 1))
        self.assertEqual(text.count("\nm "), len(rows))
        for title, heads in table.HEADS.values():
            self.assertIn(title, text)
        self.assertIn("50 %", text)
        json.dumps(rows)  # all of it can be printed as JSON


class LimitedTest(unittest.TestCase):
    def test_a_run_that_was_killed_is_the_figure_of_its_limit(self):
        run = {"tokens_per_s": 2.0, "group_peak_bytes": 3, "storage_bytes_per_token": 50.0}
        self.assertEqual(limited.summary([run, {"error": "killed at 8M"}], 100),
                         {"error": "killed at 8M", "failures": 1})
        self.assertEqual(limited.summary([run, dict(run, tokens_per_s=4.0)], 100)["tokens_per_s"],
                         3.0)
        result = {"8M": {"llama.cpp": {"error": "killed at 8M"},
                         "lowmem-run": limited.summary([run], 100)}}
        options = SimpleNamespace(r=1, n=8, threads=[2], throttle=None)
        text = "\n".join(limited.lines(result, options))
        self.assertIn("killed at 8M", text)
        self.assertIn("0.50", text)


class PeerTest(unittest.TestCase):
    def test_programs_that_are_there_are_not_built_again(self):
        with tempfile.TemporaryDirectory() as name:
            programs = Path(name) / "bin"
            programs.mkdir()
            for program in peer.PROGRAMS:
                (programs / program).touch()
            self.assertEqual(peer.build(Path(name)), programs)

    def test_a_file_that_was_not_finished_is_not_taken(self):
        with tempfile.TemporaryDirectory() as name, self.assertRaises(SystemExit):
            programs, target = Path(name), Path(name) / "x.gguf"
            quantizer = programs / "llama-quantize"
            quantizer.write_text("#!/bin/sh\necho half > \"$3\"\nexit 1\n")
            quantizer.chmod(0o755)
            try:
                peer.quantized(programs, "source", target, "Q8_0")
            finally:
                self.assertFalse(target.exists())


class CommandLineTest(unittest.TestCase):
    def refusal(self, *arguments):
        done = subprocess.run([sys.executable, ROOT / "bench/compare_llama_cpp", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_unknown_names_are_refused_before_anything_is_built(self):
        self.assertIn("known: decode, prefill", self.refusal("--only", "speed"))
        self.assertIn("known: qwen-bf16", self.refusal("--models", "gpt"))
        self.assertIn("--gguf", self.refusal("--models", "given"))
        self.assertIn("one model", self.refusal("--limits", "64M", "--models",
                                                "qwen-bf16,smollm2-bf16"))

    def test_bad_values_are_refused_in_one_line_before_anything_is_built(self):
        for option, value in (("-t", "0"), ("-t", "abc"), ("-t", ""), ("-t", "-1"), ("-r", "0"),
                              ("-n", "-1"), ("--limits", "5X"), ("--limits", ""),
                              ("--throttle", "foo"), ("--model", "/no/such"),
                              ("--peer", "/no/such"), ("--peer", "/")):
            said = self.refusal(f"{option}={value}" if option.startswith("--") else option + value)
            self.assertNotIn("Traceback", said, (option, value))
            self.assertIn(option.strip("-"), said.splitlines()[-1], (option, value))


if __name__ == "__main__":
    unittest.main()
