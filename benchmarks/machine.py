"""The machine and the versions of a measurement."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import gpusched_env

# Environment variables with which glibc keeps freed memory in the process, so that large arrays cost no more than small
# ones; by default malloc keeps only arrays of up to 32 MB. Without effect on other C libraries.
KEEPS_MEMORY: Final = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
CLOCKS: Final = {"wall": time.perf_counter, "cpu": time.process_time}
PACKAGES: Final = ("numpy", "numba", "gymnasium", "torch", "stable-baselines3", "sb3-contrib")


def _field(path: str, name: str) -> str | None:
    """Return a field of a Linux file with lines ``name: value``; None = no such file or field."""
    try:
        found = re.search(rf"^{name}\s*:\s*(.+)$", Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return found[1].strip() if found else None


def resident_bytes() -> int:
    """Resident memory of this process [byte]; Linux only."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """Peak resident memory of this process [byte]."""
    peak = _field("/proc/self/status", "VmHWM")
    if peak is not None:  # getrusage would include the process that started this one
        return 1024 * int(peak.split()[0])
    import resource  # POSIX

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def machine() -> dict[str, Any]:
    """Return processor, usable cores, memory [GB], system, and load over the last minute."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": cores,
        "memory_GB": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9,
        "system": f"{platform.system()} {platform.machine()}",
        "load": os.getloadavg()[0],
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of the packages that its speed depends on."""
    found = {"Python": platform.python_version(), "gpusched-env": gpusched_env.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def save_figures(figures: Mapping[str, Any], output: Path | None) -> None:
    """Write figures as JSON, with the machine and the versions; None = write nothing."""
    if output is not None:
        text = json.dumps({**figures, "machine": machine(), "versions": versions()}, indent=2)
        output.write_text(text + "\n", encoding="utf-8")
