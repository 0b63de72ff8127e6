#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads folders that `lowmem-run convert` wrote with the published Python packages.

    check_converted.py LOWMEM_RUN

Converts the tiny GGUF models anew and takes the real folders under models/ where
they are; each must load with AutoConfig, AutoTokenizer and safetensors, tokenize
like lowmem-run and hold bf16 tensors only. Needs transformers, no torch.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
from safetensors import safe_open  # noqa: E402
from transformers import AutoConfig, AutoTokenizer  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["The keeper reads the b", "In the morning there were 30 ships; it's 7:45.",
         "naïve café\n\n\tdef f(x):\n        return x + 1", "<|im_start|>user\nHi<|im_end|>\n"]


def tokenize(program, model, texts):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    done = subprocess.run([program, "-m", model, "tokenize"], input=lines, text=True,
                          stdout=subprocess.PIPE, check=True)
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


def check(program, folder):
    config = AutoConfig.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    raw = json.loads((folder / "tokenizer_config.json").read_text())
    assert raw["tokenizer_class"] == "PreTrainedTokenizerFast", raw["tokenizer_class"]
    for text, ids in zip(TEXTS, tokenize(program, folder, TEXTS)):
        expected = tokenizer(text)["input_ids"]
        assert ids == expected, f"{folder.name}: {text!r}: {ids} is not {expected}"
    index = folder / "model.safetensors.index.json"
    files = (sorted(set(json.loads(index.read_text())["weight_map"].values()))
             if index.exists() else ["model.safetensors"])
    names = []
    for file in files:
        with safe_open(folder / file, framework="numpy") as tensors:
            assert (tensors.metadata() or {}).get("format") == "pt"
            for name in tensors.keys():
                assert tensors.get_slice(name).get_dtype() == "BF16", name
                names.append(name)
    assert f"model.layers.{config.num_hidden_layers - 1}.mlp.down_proj.weight" in names
    assert (tokenizer.chat_template is None) == ("chat_template" not in raw)
    return config


def main():
    program = Path(sys.argv[1]).resolve()
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as scratch:
        folders = []
        for gguf in sorted((ROOT / "tests/testdata/tiny-gguf").glob("*.gguf")):
            folder = Path(scratch) / gguf.stem
            subprocess.run([program, "-q", "convert", gguf, folder], check=True)
            folders.append(folder)
        for name in ("smollm2-bf16", "qwen2.5-coder-0.5b-bf16"):
            folder = ROOT / "models" / name
            if (folder / "config.json").exists():
                folders.append(folder)
            else:
                print(f"SKIP {name}: not fetched")
                skipped += 1
        for folder in folders:
            try:
                config = check(program, folder)
                if folder.name.startswith("llama3"):
                    expected = json.loads((ROOT / "tests/testdata/tiny/llama3/config.json").read_text())
                    rope = json.loads((folder / "config.json").read_text())["rope_scaling"]
                    assert rope == expected["rope_scaling"], rope
                assert config.model_type in ("llama", "qwen2")
                print(f"PASS {folder.name}")
                passed += 1
            except Exception as error:  # each folder is reported
                print(f"FAIL {folder.name}: {type(error).__name__}: {error}")
                failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
