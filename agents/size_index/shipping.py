"""Put a size index into the package: measure it on report seeds, then write its checkpoint and its card.

    python -m gpusched_env.agents.size_index.shipping runs/elastic/model.npz

For maintainers: it writes to the folder of the package.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from gpusched_env import __version__
from gpusched_env.agents.cards import Card, put
from gpusched_env.agents.checkpoints import read_checkpoint
from gpusched_env.agents.measuring import measured_ratios
from gpusched_env.agents.size_index.scheduler import FORMAT
from gpusched_env.agents.size_index.search import SCENARIO
from gpusched_env.files import sha256_of
from gpusched_env.scenarios import get_scenario

NAME: Final = "elastic"
RIVALS: Final = ("pollux", "max-min", "afs", "afs-p")
SEEDS: Final = 20


def card_of(model: Path) -> Card:
    """Measure an index on report seeds, and return its card."""
    about = read_checkpoint(model, FORMAT, "the weights of a size index")[0]["about"]
    scenario, settings = get_scenario(SCENARIO), about["settings"]
    ratios = measured_ratios(f"learned:path={model}", RIVALS, SCENARIO, "mean_jct_s", SEEDS)
    return Card(
        name=NAME,
        kind="size-index",
        summary="small mean JCT of elastic jobs without run times: which job gets the next GPUs",
        environment="gpusched/Elastic-v0",
        scenario=SCENARIO,
        clairvoyant=settings["clairvoyant"],
        sha256=sha256_of(model),
        made_by=[f"python -m gpusched_env.agents.size_index.search --seed {settings['seed']}"],
        simulated_jobs=about["simulated_jobs"],
        hours=about["cpu_hours"],
        machine="a part of one core",
        seeds={use: getattr(scenario.seeds, use) for use in ("train", "validation", "report")},
        metric="mean_jct_s",
        compared_seeds=SEEDS,
        ratios={rival: (round(mean, 5), round(low, 5), round(high, 5)) for rival, (mean, low, high) in ratios.items()},
        intended_use="Elastic jobs whose speed at each size is known, and whose run times nobody knows.",
        limits="It knows the true speeds at all sizes, also of jobs that have never run, as afs-p does; pollux knows "
        "them of jobs that have run, and max-min only sizes. One of its weights knows an application by its speed on "
        "one GPU, so it is made for the applications of Pollux. It divides by numbers: a rule of its own places the "
        "jobs.",
        versions={"version": __version__},
        training=settings,
    )


def main() -> None:
    """Write checkpoint and card."""
    parser = argparse.ArgumentParser(description="Put a size index into the package.")
    parser.add_argument("model", type=Path, help="file that the search has written")
    model = parser.parse_args().model
    card = card_of(model)
    put(card, model)
    print(card)


if __name__ == "__main__":
    main()
