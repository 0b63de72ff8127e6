# SPDX-License-Identifier: Apache-2.0
"""The models that are compared: the same weights for both programs, fetched, converted and
quantized where they are not there yet; and what computing with them takes."""
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from compare import peer

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Subject:
    name: str
    ours: Path     # what lowmem-run is given
    theirs: Path   # what llama.cpp is given


@dataclass
class Model:
    fetched: str   # as ./dev fetch calls it
    gguf: Path     # what that brings, and how its weights are stored
    kind: str
    folder: Path   # bf16, converted from it


MODELS = {
    "qwen": Model("qwen2.5-coder-0.5b",
                  ROOT / "models/qwen2.5-coder-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                  "q4_k_m", ROOT / "models/qwen2.5-coder-0.5b-bf16"),
    "smollm2": Model("smollm2", ROOT / "models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                     "q4_1", ROOT / "models/smollm2-bf16"),
}
NAMES = ("qwen-bf16", "smollm2-bf16", "qwen-q4_k_m", "smollm2-q4_1", "qwen-q8_0", "smollm2-q8_0")


def subject(name, programs, lowmem, made):
    """The subject of one of NAMES; what is missing of it is made first.

    `programs` holds llama-quantize, `made` what that makes."""
    model_name, kind = name.split("-", 1)
    model = MODELS[model_name]
    if not model.gguf.exists():
        subprocess.run([ROOT / "dev", "fetch", model.fetched], check=True, stdout=sys.stderr)
    if kind == model.kind:
        return Subject(name, model.gguf, model.gguf)
    made.mkdir(parents=True, exist_ok=True)
    quantized = peer.quantized(programs, model.gguf, made / f"{name}.gguf", kind.upper())
    if kind != "bf16":
        return Subject(name, quantized, quantized)
    if not model.folder.exists():
        subprocess.run([lowmem, "-q", "convert", model.gguf, model.folder], check=True)
    return Subject(name, model.folder, quantized)


def info(lowmem, path):
    out = subprocess.run([lowmem, "--json", "-m", path, "info"], check=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)


def prefill_flops(shape, num_tokens):
    """Two for each weight of the layers and token, and for each of the head once, as the last
    token alone needs it. Attention over the context is not counted. `shape`: of `info`."""
    q_dim = shape["num_heads"] * shape["head_dim"]
    kv_dim = shape["num_kv_heads"] * shape["head_dim"]
    layer_weights = shape["dim"] * (2 * q_dim + 2 * kv_dim + 3 * shape["ff_dim"])
    return 2 * (num_tokens * shape["num_layers"] * layer_weights
                + shape["dim"] * shape["vocab_size"])


def kv_bytes_per_token(shape):
    """Bytes of keys and values that one more token of context makes each program read:
    lowmem-run as it says itself, llama.cpp in f16."""
    elements = 2 * shape["num_layers"] * shape["num_kv_heads"] * shape["head_dim"]
    return shape["forecast"]["copy"]["kv_bytes_per_token"], 2 * elements


def context_bound(weight_bytes, kv_bytes, num_tokens):
    """How fast decoding behind so many tokens can be at most, as a share of decoding behind
    none, where memory is the limit."""
    return weight_bytes / (weight_bytes + kv_bytes * num_tokens)


def warm(path):
    """Has the page cache hold a file, or the files of a folder."""
    for file in [path] if path.is_file() else sorted(path.iterdir()):
        with open(file, "rb", buffering=0) as opened:
            buffer = bytearray(1 << 20)
            while opened.readinto(buffer):
                pass
