"""The battery gives the golden digests on this machine, and on others as far as one machine can play them."""

import os
import subprocess
import sys

import numpy as np
import pytest

from gpusched_env.portability.battery import PARTS

LOOPS = np.show_config(mode="dicts")["SIMD Extensions"].get(
    "found", []
)  # NumPy's vector loops here, beyond its baseline
NEWEST = [name for name in LOOPS if "AVX512" in name or name in ("X86_V4", "SVE")]
WITHOUT_FMA = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"}  # what other C libraries ignore
MACHINES = {
    "this one": {"PYTHONHASHSEED": "random", "NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
    "without AVX-512": {
        "NPY_DISABLE_CPU_FEATURES": " ".join(NEWEST),
        "OPENBLAS_CORETYPE": "Haswell",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    },
    "without AVX2 and FMA": {
        "NPY_DISABLE_CPU_FEATURES": " ".join(LOOPS),
        "OPENBLAS_CORETYPE": "Nehalem",
        "NUMBA_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "2",
        "PYTHONHASHSEED": "7",
        **WITHOUT_FMA,
    },
    "of 2004": {
        "NPY_DISABLE_CPU_FEATURES": " ".join(LOOPS),
        "OPENBLAS_CORETYPE": "Prescott",
        "NUMBA_CPU_NAME": "generic",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        **WITHOUT_FMA,
    },
}


def play(changes: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CPU_NAME",)}
    return subprocess.run(
        [sys.executable, "-m", "gpusched_env.portability", *arguments],
        env=environment | changes, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_gives_the_golden_digests(name):
    parts = ("--parts", "arithmetic; draws; instances; runs, tiers") if "NUMBA_CPU_NAME" in MACHINES[name] else ()
    played = play(MACHINES[name], *parts)  # a part, where the simulator must be compiled anew
    assert played.returncode == 0, played.stdout + played.stderr
    assert "all digests are the golden ones" in played.stdout


def test_another_digest_is_told_and_fails(tmp_path, monkeypatch, capsys):
    from typer import Exit

    from gpusched_env.portability import __main__ as command

    monkeypatch.setattr(command, "GOLDEN", tmp_path / "golden.json")
    command.GOLDEN.write_text('{"intervals": {"mean": "000000000000", "gone": "111111111111"}}')
    with pytest.raises(Exit) as refused:
        command.main(parts="intervals")
    assert refused.value.exit_code == 1
    told = capsys.readouterr().out
    assert "golden 000000000000" in told
    assert "gone: not played" in told
    assert "ratio: " in told
    assert "3 digests differ" in told


def test_an_exponential_of_numpys_would_be_found(monkeypatch):
    """The battery is worth something: where draws hang on another ``exp``, their digests differ."""
    from gpusched_env.portable import arrays

    before = dict(PARTS["draws"]())

    def one_bit_off(values):
        return np.nextafter(np.exp(values), np.inf)

    monkeypatch.setattr(arrays, "exp", one_bit_off)
    changed = {name for name, value in PARTS["draws"]() if value != before[name]}
    assert {"philly", "helios-venus", "pai"} <= changed
    assert "ring-all-reduce" not in changed


def test_unknown_parts_are_refused():
    played = play({}, "--parts", "weather")
    assert played.returncode == 2
    assert "no part 'weather'" in played.stderr
