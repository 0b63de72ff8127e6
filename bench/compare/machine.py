# SPDX-License-Identifier: Apache-2.0
"""What machine this is."""
import os
import platform
from pathlib import Path


def read_first(path, default="?"):
    try:
        return Path(path).read_text().strip()
    except OSError:
        return default


def field(text, name):
    """The value of "name : value" in the text of a file below /proc."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def memory(name):
    """Bytes of "MemTotal" or "MemAvailable"."""
    return int((field(read_first("/proc/meminfo", ""), name) or "0 kB").split()[0]) << 10


def facts():
    pages = "/sys/kernel/mm/transparent_hugepage"
    return {"cpu": field(read_first("/proc/cpuinfo", ""), "model name") or platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "memory_bytes": memory("MemTotal"),
            "kernel": platform.release(), "page_bytes": os.sysconf("SC_PAGE_SIZE"),
            "huge_pages": read_first(f"{pages}/enabled"),
            "huge_pages_defrag": read_first(f"{pages}/defrag"),
            "load": os.getloadavg()[0]}
