"""The named scenarios, as data.

The version in a name is raised only when the results of the scenario change. The scenario with the old name is then
kept. But if the old results differed between machines, the old name is retired.
"""

from __future__ import annotations

from typing import Final

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.network import NETWORK_PRESETS, Contention, Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.dally_authors import AUTHORS
from gpusched_env.scenarios.deadlines import ELASTICFLOW, SLO
from gpusched_env.scenarios.delay_timer_cells import CELLS
from gpusched_env.scenarios.family import ScenarioFamily
from gpusched_env.scenarios.files import load_scenario
from gpusched_env.scenarios.hadar import HADAR
from gpusched_env.scenarios.hadare import HADARE
from gpusched_env.scenarios.heterogeneous import HETEROGENEOUS
from gpusched_env.scenarios.network_sensitive import NETWORK_SENSITIVE
from gpusched_env.scenarios.pollux import POLLUX
from gpusched_env.scenarios.ring_all_reduce import ring_all_reduce
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.sia import SIA
from gpusched_env.scenarios.sjf_bsbf import SJF_BSBF
from gpusched_env.scenarios.tenants import COHORT, TENANTS_PHILLY, TENANTS_VENUS
from gpusched_env.scenarios.varying import VARYING
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.support.plugins import load_plugins

HALF_DAY: Final = 43_200.0  # [s]
# Gang sizes in a sample of the full Philly log, which has more multi-GPU jobs than the processed log from which the
# generator is calibrated. The largest gang in the sample has 8 GPUs. The shares of 16 and 32 GPUs are twice those of
# the processed log (choice).
FULL_LOG_DEMAND: Final = {"1": 0.860, "2": 0.023, "4": 0.049, "6": 0.001, "8": 0.062, "16": 0.004, "32": 0.001}
# Gang sizes include 12, 24, 48 and 96, so that gangs share machines and racks. Gangs larger than a machine take five
# sixths of the GPU time, so that the cost of placements matters (choice).
MANY_SIZES: Final = {
    "mean_duration_s": 3_600.0,
    "demand": {
        "1": 0.20, "2": 0.10, "4": 0.14, "8": 0.15, "12": 0.10, "16": 0.12, "24": 0.08, "32": 0.05, "48": 0.04,
        "96": 0.02,
    },
}  # fmt: skip
CONGESTED: Final = Network("topology", topology=NETWORK_PRESETS["oversub4"].topology, contention=Contention("maxmin"))

_FAMILIES: Final = (
    *NETWORK_SENSITIVE, CELLS, AUTHORS, *HETEROGENEOUS, HADAR, *HADARE, *SJF_BSBF, POLLUX, SIA, ELASTICFLOW,
    TENANTS_PHILLY, TENANTS_VENUS, COHORT, VARYING,
)  # fmt: skip
# Families of scenarios; SCENARIOS has the scenario of each family with the default parameters.
FAMILIES: Final[dict[str, ScenarioFamily]] = {family.name: family for family in _FAMILIES}
SCENARIOS: Final = (
    # 8 nodes, 64 GPUs, 2 racks; 300 jobs
    Scenario(
        name="philly-64-v1",
        description="Bursty jobs like those of Philly on a small cluster: the default for learning.",
        groups=(NodeGroup(8, 8, nodes_per_rack=4),),
        workload=WorkloadSpec(
            "synthetic:philly",
            {"max_duration_s": HALF_DAY, "demand": FULL_LOG_DEMAND},
            jobs=300,
            max_gpus=32,
            load=1.2,  # at this load, the mean JCT of strict FIFO is about three times that of SRTF
        ),
    ),
    # 32 nodes, 256 GPUs, 4 racks; 1,200 jobs
    Scenario(
        name="philly-256-v1",
        description="Bursty jobs like those of Philly on a cluster of four racks.",
        groups=(NodeGroup(32, 8, nodes_per_rack=8),),
        workload=WorkloadSpec(
            "synthetic:philly",
            {"max_duration_s": HALF_DAY, "demand": FULL_LOG_DEMAND},
            jobs=1_200,
            max_gpus=128,
            load=1.2,
        ),
    ),
    # 310 nodes, 2,480 GPUs, 10 racks; 5,000 jobs
    Scenario(
        name="philly-full-v1",
        description="A cluster of Philly's size, for the whole Philly log; synthetic jobs by default.",
        groups=(NodeGroup(310, 8, nodes_per_rack=31),),
        workload=WorkloadSpec("synthetic:philly", jobs=5_000, load=0.9),
    ),
    # 128 nodes, 1,024 GPUs, 8 racks; 5,000 jobs
    Scenario(
        name="helios-venus-v1",
        description="A cluster of Venus's size, for the Helios log; synthetic jobs by default.",
        groups=(NodeGroup(128, 8, nodes_per_rack=16),),
        workload=WorkloadSpec("synthetic:helios-venus", jobs=5_000, load=0.9),
    ),
    # 8 nodes, 64 GPUs, 1 rack; 5,000 jobs, 4,000 of them measured
    Scenario(
        name="poisson-64-v1",
        description="One-GPU jobs, Poisson arrivals and exponential run times at load 0.9: the M/M/64 queue.",
        groups=(NodeGroup(8, 8),),
        workload=WorkloadSpec(
            "synthetic:poisson",
            {"rate_per_s": 0.016, "mean_duration_s": 3_600.0},
            profiles="unit",
            jobs=5_000,
        ),
        network=Network(model="none"),
        semantics=Semantics(checkpoint_s=0.0, restore_s=0.0),
        tracked_window=(500, 4_500),
    ),
    # 2 nodes, 8 GPUs, 1 rack; 12 jobs
    Scenario(
        name="tiny-v1",
        description="Twelve jobs on eight GPUs with free preemption, for tests and first steps.",
        groups=(NodeGroup(2, 4),),
        workload=WorkloadSpec(
            "synthetic:poisson",
            {"rate_per_s": 1 / 60, "mean_duration_s": 300.0, "demand": {"1": 0.5, "2": 0.25, "4": 0.25}},
            profiles="unit",
            jobs=12,
        ),
        network=Network(model="none"),
        semantics=Semantics(checkpoint_s=0.0, restore_s=0.0),
    ),
    # 20 nodes of 4 to 32 GPUs, 300 GPUs, 20 racks; 160 jobs
    ring_all_reduce(name="rar-160-v0"),
    # 32 nodes, 256 GPUs, 4 racks; 800 jobs
    Scenario(
        name="leaf-spine-256-v1",
        description="Gangs of many sizes contend for the uplinks of four racks, 4:1 oversubscribed.",
        groups=(NodeGroup(32, 8, nodes_per_rack=8),),
        workload=WorkloadSpec("synthetic:poisson", MANY_SIZES, jobs=800, load=1.0),
        network=CONGESTED,
    ),
    # 256 nodes, 2,048 GPUs, 32 racks; 3,000 jobs
    Scenario(
        name="leaf-spine-2048-v1",
        description="As leaf-spine-256-v1 in 32 racks, to test how schedulers and simulators scale.",
        groups=(NodeGroup(256, 8, nodes_per_rack=8),),
        workload=WorkloadSpec("synthetic:poisson", MANY_SIZES, jobs=3_000, load=1.0),
        network=CONGESTED,
    ),
    SLO,
    # The families with their default parameters
    *(family.scenario() for family in FAMILIES.values()),
)
_BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}
# Retired name -> its replacement; the results of the retired scenarios differed between machines.
RETIRED: Final = {f"{name}-v0": f"{name}-v1" for name in (
    "philly-64", "philly-256", "philly-full", "helios-venus", "poisson-64", "tiny", "leaf-spine-256",
    "leaf-spine-2048", "dally-batch", "dally-poisson", "dally-trace", "dally-drift", "dally-authors",
    "gavel-continuous", "hadar-60gpu", "bsbf-sim-240", "bsbf-physical-30",
)}  # fmt: skip


def register_scenario(scenario: Scenario | ScenarioFamily) -> None:
    """Register a scenario, or a family of scenarios with parameters, under its name.

    Raises
    ------
    ScenarioError : the name exists already or is retired
    """
    name = scenario.name
    if name in _BY_NAME or name in RETIRED:
        raise ScenarioError(f"scenario {name!r} exists already; choose another name")
    if isinstance(scenario, ScenarioFamily):
        FAMILIES[name] = scenario
        scenario = scenario.scenario()
    _BY_NAME[name] = scenario


def list_scenarios() -> tuple[str, ...]:
    """Return the names of the registered scenarios."""
    load_plugins()
    return tuple(_BY_NAME)


def get_scenario(name_or_path: str) -> Scenario:
    """Return a registered scenario, or read a scenario from a file.

    Parameters
    ----------
    name_or_path : name of a scenario; or name of a family with parameters, such as
        ``dally-poisson-v1:gpus=512,oversubscription=8``; or path of a file that ends in ``.json`` or ``.toml``

    Raises
    ------
    ScenarioError : an unknown or retired name, an unknown parameter or value (the message lists the known ones), or a
        file that cannot be read
    """
    load_plugins()
    if str(name_or_path).endswith((".json", ".toml")):
        return load_scenario(name_or_path)
    name, colon, parameters = str(name_or_path).partition(":")
    if name in RETIRED:
        raise ScenarioError(
            f"scenario {name!r} is retired: the last bits of its jobs differed between processors; "
            f"play {RETIRED[name] + colon + parameters!r}, and do not compare results of the two"
        )
    if name not in _BY_NAME:
        raise ScenarioError(unknown_name("scenario", name, _BY_NAME) + "; or give a .json or .toml file")
    if not colon:
        return _BY_NAME[name]
    if name not in FAMILIES:
        raise ScenarioError(f"scenario {name!r} takes no parameters; those that do: {', '.join(FAMILIES)}")
    return FAMILIES[name].scenario(parameters)
