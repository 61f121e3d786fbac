"""Write the golden files: one readable event log for each heuristic baseline on tiny-v1, seed 200000.

Run ``python tests/golden/regenerate.py`` from the root of the repository after an intended change of results, and read
``git diff tests/golden`` before committing it: every changed line is a changed decision. A change
of results also needs a new version of the scenario or environment ids and a new RESULTS_VERSION.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
SCENARIO, SEED = "tiny-v1", 200_000


def playthrough(name: str) -> str:
    """Play a baseline and return its event log, one line for each event."""
    from gpusched_env.baselines import make_scheduler
    from gpusched_env.scenarios import get_scenario
    from gpusched_env.simulator import simulate

    log = simulate(get_scenario(SCENARIO).instance(SEED), make_scheduler(name), seed=SEED)
    return "\n".join(log.lines()) + "\n"


def golden_file(name: str) -> Path:
    """Path of the golden file of a baseline."""
    return HERE / f"{name}-{SCENARIO}.txt"


def main() -> None:
    """Write all golden files; remove those of removed baselines."""
    from gpusched_env.baselines import list_baselines

    wanted = {golden_file(name): playthrough(name) for name in list_baselines({"links"})}
    for path in set(HERE.glob("*.txt")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8", newline="\n")
        print(path)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))
    main()
