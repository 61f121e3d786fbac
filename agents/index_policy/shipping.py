"""Put an index policy into the package: measure it on report seeds, then write its checkpoint and its card.

    python -m gpusched_env.agents.index_policy.shipping index_policy.npz

For maintainers: it writes to the folder of the package.
"""

from __future__ import annotations

import argparse
from importlib import metadata
from pathlib import Path
from typing import Final

from gpusched_env import __version__
from gpusched_env.agents.cards import Card, put
from gpusched_env.agents.checkpoints import read_checkpoint
from gpusched_env.agents.index_policy.rule import FORMAT
from gpusched_env.agents.measuring import measured_ratios
from gpusched_env.baselines.registry import GENERAL_AGENT
from gpusched_env.files import sha256_of
from gpusched_env.scenarios import get_scenario

SCENARIO: Final = "philly-256-v1"
RIVALS: Final = (
    "dally",
    "tiresias:placement=consolidate",
    "las-2d:placement=consolidate",
    "fifo-skip:placement=consolidate",
)
SEEDS: Final = 20


def card_of(model: Path) -> Card:
    """Measure a policy on report seeds of SCENARIO, and return its card."""
    about = read_checkpoint(model, FORMAT, "an index policy")[0]["about"]
    scenario = get_scenario(SCENARIO)
    ratios = measured_ratios(f"learned:path={model}", RIVALS, SCENARIO, "mean_jct_s", SEEDS, 1)
    settings = about["settings"]
    return Card(
        name=GENERAL_AGENT,
        kind="index-policy",
        summary="small mean JCT on any cluster without run times: a table scores jobs, similar jobs predict each other",
        environment="gpusched/Cluster-v0",
        scenario=SCENARIO,
        clairvoyant=False,
        sha256=sha256_of(model),
        made_by=[f"python -m gpusched_env.agents.index_policy.search LOGS --seed {settings['seed']}"],
        simulated_jobs=about["simulated_jobs"],
        hours=about["cpu_hours"],
        machine="one core",
        seeds={"report": scenario.seeds.report},
        metric="mean_jct_s",
        compared_seeds=SEEDS,
        ratios={rival: (round(mean, 5), round(low, 5), round(high, 5)) for rival, (mean, low, high) in ratios.items()},
        intended_use="Clusters of 64 GPUs and more where nobody knows run times, with tiers or with links that gangs "
        "share. docs/unseen_logs.md compares it with tuned schedulers on logs that it has never seen.",
        limits="It is made for mean JCT: the p99 of JCT may be above that of Tiresias. It knows neither GPU types, nor "
        "GPU sharing, nor users. Where users never submit similar jobs together, it has little more to go by than "
        "Tiresias; where some jobs run for months among minutes, tuned Dally was better.",
        versions={"version": __version__, "packages": {name: metadata.version(name) for name in ("numpy", "cmaes")}},
        training=settings,
        data="logs: Philly before 2017-11-01, Venus before 2020-06-15, and synthetic jobs like theirs",
    )


def main() -> None:
    """Write checkpoint and card."""
    parser = argparse.ArgumentParser(description="Put an index policy into the package.")
    parser.add_argument("model", type=Path, help="file that the search has written")
    model = parser.parse_args().model
    card = card_of(model)
    put(card, model)
    print(card)


if __name__ == "__main__":
    main()
