# SPDX-License-Identifier: Apache-2.0
"""Programs in control groups (version 1) of a given memory size or disk speed, with the
bytes that they have read from storage watched over time. For root; no module but Python's own."""
import contextlib
import os
import signal
import subprocess
import time

MEMORY, DISK = "/sys/fs/cgroup/memory", "/sys/fs/cgroup/blkio"
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    """Bytes of "96M"."""
    return int(float(text[:-1]) * UNITS[text[-1]]) if text[-1] in UNITS else int(text)


def write(path, text):
    with open(path, "w") as file:
        file.write(str(text))


def read_number(path, label=""):
    """The number behind `label` at the start of a line; 0 where there is none."""
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            if line.startswith(label):
                return int(line[len(label):])
    return 0


@contextlib.contextmanager
def group(parent, limits):
    """A control group below `parent` whose files hold `limits`; gone afterwards."""
    folder = f"{parent}/compare-{os.getpid()}"
    os.mkdir(folder)
    try:
        for name, value in limits:
            write(f"{folder}/{name}", value)
        yield folder
    finally:
        for _ in range(500):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
                break
            time.sleep(0.01)


def memory_limits(num_bytes):
    """For `group`: so much memory, and no swap beyond it."""
    limits = [("memory.limit_in_bytes", num_bytes)]
    if os.path.exists(f"{MEMORY}/memory.memsw.limit_in_bytes"):
        limits.append(("memory.memsw.limit_in_bytes", num_bytes))
    return limits


def disk_limits(path, bytes_per_s):
    """For `group`: the disk of a file reads so fast and no faster."""
    device = os.stat(path).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    block = os.path.realpath(f"/sys/dev/block/{name}")
    if os.path.exists(f"{block}/partition"):  # only whole disks are throttled
        with open(f"{os.path.dirname(block)}/dev") as file:
            name = file.read().strip()
    return [("blkio.throttle.read_bps_device", f"{name} {bytes_per_s}")]


def forget_pages(path):
    """Has the page cache forget a file, or the files of a folder."""
    files = [path] if os.path.isfile(path) else [entry.path for entry in os.scandir(path)]
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def run_in(groups, command, time_limit_s):
    """Born in `groups`: stdout, exit code (None: out of time), [(time, bytes from storage)]."""
    def join():
        for folder in groups:
            write(f"{folder}/cgroup.procs", 0)

    reads, begin, timed_out = [], time.monotonic(), False
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          preexec_fn=join) as process:
        # Little output: it fits the pipe.
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            reads.append((time.monotonic(), read_number(f"/proc/{process.pid}/io", "read_bytes:")))
            time.sleep(0.02)
            if time.monotonic() - begin > time_limit_s and not timed_out:
                process.send_signal(signal.SIGKILL)
                timed_out = True
        reads.append((time.monotonic(), read_number(f"/proc/{process.pid}/io", "read_bytes:")))
        out = process.stdout.read()
    return out, None if timed_out else process.returncode, reads


def read_within(reads, duration_s):
    """Bytes from storage in the last seconds of a process."""
    end_s, end_bytes = reads[-1]
    return end_bytes - next((count for at, count in reversed(reads) if at <= end_s - duration_s), 0)
