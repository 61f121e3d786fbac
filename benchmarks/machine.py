"""The machine and the versions that a measurement belongs to."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import gpusched_env

# Environment of a process in which memory that is freed stays (glibc), so that large arrays cost no more than small
# ones: malloc keeps those of up to 32 MB by itself. Elsewhere it means nothing.
KEEPS_MEMORY: Final = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
PACKAGES: Final = ("numpy", "numba", "gymnasium", "torch", "stable-baselines3", "sb3-contrib")


def _field(path: str, name: str) -> str | None:
    """Give a field of one of Linux's files of ``name: value`` lines."""
    try:
        found = re.search(rf"^{name}\s*:\s*(.+)$", Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return found[1].strip() if found else None


def resident_bytes() -> int:
    """Memory that the process holds now [byte]; Linux only."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """Peak resident memory of this process alone [byte]."""
    peak = _field("/proc/self/status", "VmHWM")
    if peak is not None:  # what getrusage tells began with the process that started this one
        return 1024 * int(peak.split()[0])
    import resource  # POSIX

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def machine() -> dict[str, Any]:
    """Give processor, cores that may be used, memory [GB], system, and load over the last minute."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": cores,
        "memory_GB": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9,
        "system": f"{platform.system()} {platform.machine()}",
        "load": os.getloadavg()[0],
    }


def versions() -> dict[str, str]:
    """Give the versions of Python, of this package and of what its speed depends on."""
    found = {"Python": platform.python_version(), "gpusched-env": gpusched_env.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
