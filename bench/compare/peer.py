# SPDX-License-Identifier: Apache-2.0
"""llama.cpp, built from source below build/ of this clone, and files that its quantizer makes.
It is a measuring stick only: none of it goes into the project."""
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

# The source distribution of this package carries llama.cpp whole.
PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
PROGRAMS = ("llama-bench", "llama-quantize")
CMAKE_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DGGML_OPENMP=ON", "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF")


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def run(command, log):
    """Runs a command with what it prints in a file; ends this program where it fails."""
    with open(log, "w") as out:
        code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL).returncode
    if code != 0:
        sys.exit(f"{Path(log).read_text()[-2000:]}\ncompare: {command[0]} failed with {code}; see {log}")


def fetch_source(folder):
    """folder/src: llama.cpp as it lies in the source distribution, which is proved first."""
    if (folder / "src").exists():
        return
    say(f"fetching {PACKAGE} {VERSION}")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as name:
        scratch = Path(name)
        run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check",
             "--no-deps", "--no-binary", PACKAGE, "-d", scratch, f"{PACKAGE}=={VERSION}"],
            folder / "fetch.log")
        (archive,) = scratch.glob("*.tar.gz")
        got = hashlib.sha256(archive.read_bytes()).hexdigest()
        if got != SHA256:
            sys.exit(f"compare: {archive.name}: wrong SHA-256; expected {SHA256}, got {got}")
        inside = f"{PACKAGE.replace('-', '_')}-{VERSION}/vendor/llama.cpp"
        with tarfile.open(archive) as files:
            files.extractall(scratch, [member for member in files.getmembers()
                                       if member.name.startswith(f"{inside}/")])
        os.replace(scratch / inside, folder / "src")


def build(folder):
    """The folder with llama.cpp's programs; they are built where they are not there yet."""
    programs = folder / "bin"
    if all((programs / program).exists() for program in PROGRAMS):
        return programs
    if shutil.which("cmake") is None:
        sys.exit("compare: cmake is needed to build llama.cpp")
    folder.mkdir(parents=True, exist_ok=True)
    fetch_source(folder)
    say(f"building llama.cpp in {folder}: about 12 minutes on 2 cores")
    generator = "Ninja" if shutil.which("ninja") else "Unix Makefiles"
    run(["cmake", "-S", folder / "src", "-B", folder / "build", "-G", generator, *CMAKE_OPTIONS],
        folder / "configure.log")
    run(["cmake", "--build", folder / "build", "-j", str(os.cpu_count()), "--target", *PROGRAMS],
        folder / "build.log")
    programs.mkdir(exist_ok=True)
    for program in PROGRAMS:
        shutil.copy2(folder / "build/bin" / program, programs / program)
    return programs


def quantized(programs, source, target, kind):
    """`target`, made once from the weights of another GGUF."""
    if target.exists():
        return target
    say(f"making {target.name}")
    unfinished = target.with_suffix(".unfinished")
    run([programs / "llama-quantize", "--allow-requantize", source, unfinished, kind],
        target.with_suffix(".log"))
    os.replace(unfinished, target)
    return target
