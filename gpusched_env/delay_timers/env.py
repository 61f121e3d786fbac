"""The environment of delay timers: an agent sets how long Dally's scheduler lets gangs wait for a tighter tier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.core.waiting import waiting_rows
from gpusched_env.delay_timers.actions import DEMAND_CLASSES, TimerActions
from gpusched_env.delay_timers.observer import Observation, TimerObserver, observation_space
from gpusched_env.envs.episode_seeds import NO_SEED, TRAIN, next_seed, seeds_in_order
from gpusched_env.envs.options import check_reset_options, made_of, signature_of
from gpusched_env.envs.rendering import FRAMES_PER_S, RENDER_MODES, check_render_mode
from gpusched_env.envs.rendering import render as draw
from gpusched_env.envs.rewards import COMPONENTS
from gpusched_env.envs.window import HUMAN
from gpusched_env.envs.window import close as close_window
from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import metric_names, summarise
from gpusched_env.scenarios import get_scenario
from gpusched_env.scenarios.scenario import ONE_PROBLEM

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario
    from gpusched_env.simulator import Simulation

MODES: Final = ("absolute", "residual")


@dataclass(frozen=True)
class TimerOptions:
    """Arguments of :class:`DelayTimersEnv`, whose docstring explains them."""

    mode: str = "absolute"
    classes: Sequence[int] = DEMAND_CLASSES
    interval_s: float = 1_800.0
    scheduler: dict[str, Any] | None = None
    scale: float | None = None
    horizon_s: float = math.inf
    train_seeds: tuple[int, int] | None = None
    costs: bool = False
    seeds: str | Sequence[int] = TRAIN
    render_mode: str | None = None

    def __post_init__(self) -> None:
        """Check what does not depend on the scenario."""
        if self.mode not in MODES:
            raise ScenarioError(f"mode: {unknown_name('mode', self.mode, MODES)}")
        for name in ("interval_s", "horizon_s", "scale"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ScenarioError(f"{name} is {value!r}: it must be above 0")
        if math.isinf(self.interval_s) or (self.scale is not None and math.isinf(self.scale)):
            raise ScenarioError("interval_s and scale must be finite")
        if self.seeds != TRAIN and self.train_seeds is not None:
            raise ScenarioError(f"train_seeds: nothing is drawn from them, because seeds is {self.seeds!r}; give one")
        check_render_mode(self.render_mode)


class DelayTimersEnv(gym.Env[Observation, np.ndarray]):
    """Set the delay timers of Dally's scheduler once every tuning interval.

    ## Description
    A gang that fits on no machine now waits for one until its rack timer expires. It then accepts any one rack. When
    its network timer expires as well, it accepts GPUs anywhere. Short timers start gangs soon but spread them widely;
    long timers start them late but close together. The best length depends on the load, the models and the network,
    and changes with them. Offers, leases and priorities are Dally's (``gpusched_env.baselines.dally.scheduler``); the
    agent sets only the timers.

    ## Action Space
    ``Box(-1, 1, (D, 2))``: a rack timer and a network timer for each of D demand classes (2, 3-4, 5-8, 9-16, 17-32 and
    more than 32 GPUs). With u = (a + 1) / 2, an action a means

    | u | timer |
    |---|---|
    | u <= 0.05 | 0 |
    | 0.05 < u < 0.95 | 60 s x 10080^((u - 0.05) / 0.9): a minute to a week |
    | u >= 0.95 | infinite |

    The network timer is the sum of the rack timer and the second timer of the action. A demand larger than a machine
    may take a rack at once, so its network timer is the second timer alone. In mode "residual", the action multiplies
    the hand tuner's timers by 16^a. Values outside [-1, 1] are clipped; NaN and other shapes are refused.

    ## Observation Space
    ``Dict`` of float32 arrays in [0, 1]: ``classes``, one row per class, and ``cluster``, whose sine and cosine of the
    time of day are in [-1, 1]. ``costs=True`` adds ``costs``, one row per class. There are no run times, and nothing of
    the future.
    ``docs/delay_timers.md`` defines every column.

    ## Rewards
    The reward of a step is minus the integral of the number of jobs in the system over the interval, divided by
    ``scale``. Summed over a finished episode it is exactly -(sum of JCT) / scale. ``info["dt"]`` holds the length of
    the interval [s].

    ## Starting State
    The simulation begins at time 0, before the first event. ``reset(seed=s)`` draws the workload of scenario seed
    ``s``; ``reset()`` without a seed draws a seed from ``train_seeds``, or plays the next one of ``seeds``.

    ## Episode End
    The episode ends if one of these occurs:

    1. Termination: every job has finished.
    2. Truncation: simulated time reaches the scenario's ``time_limit_s`` or ``horizon_s``. Rewards then include the
       time of unfinished jobs up to this point.

    Every ``info`` holds ``seed``, ``jobs_left`` and ``mean_time_in_system_s``, the mean over all arrived jobs, which is
    a lower bound on their mean JCT. The last one holds ``digest`` and, if every job has finished, ``metrics``; before,
    ``digest`` is empty and ``metrics`` are infinite.

    ## Arguments
    ```python
    gymnasium.make("gpusched_env:gpusched/DelayTimers-v0", scenario="dally-drift-v1", mode="residual")
    ```

    Parameters
    ----------
    scenario : a scenario's name, the path of a JSON or TOML file, or a Scenario
    mode : "absolute" = actions are timers; "residual" = actions are factors of the hand tuner's timers
    classes : [GPU] largest demand of each class but the last
    interval_s : tuning interval [s]
    scheduler : parameters of the Dally scheduler whose timers the agent sets
    scale : divisor of the rewards [s]; None = the sum of the ideal run times of all jobs, so that the return is
        -(mean JCT) / (mean ideal run time)
    horizon_s : simulated time at which an episode is truncated [s]
    train_seeds : half-open range from which ``reset()`` draws seeds; None = the scenario's training seeds
    costs : whether observations have the array ``costs``: what loose placements cost the gangs of each class
    seeds : what ``reset()`` without a seed plays: "train" draws from ``train_seeds``; "validation", "report" or a pair
        (first, end) play each seed of this range in turn, after ``reset(seed=s)`` from s + 1 on
    render_mode : None, "ansi" (text), "rgb_array" (picture) or "human" (a window)

    Raises
    ------
    ScenarioError : an unknown name or impossible value

    ## Version History
    * v0: first version
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(RENDER_MODES), "render_fps": FRAMES_PER_S}  # type: ignore[misc]

    def __init__(self, scenario: str | Scenario = "dally-poisson-v1", **options: Any) -> None:

        self.scenario = get_scenario(scenario) if isinstance(scenario, str) else scenario
        if self.scenario.variation is not None:
            raise ScenarioError(f"scenario {self.scenario.name!r} varies, but timers suit one cluster; {ONE_PROBLEM}")
        (own,) = made_of(options, TimerOptions)
        self._options, self.render_mode, self.interval_s = own, own.render_mode, float(own.interval_s)
        self.timers = TimerActions(self.scenario.cluster, own.classes, own.mode == "residual")
        self.action_space = spaces.Box(-1.0, 1.0, self.timers.shape, np.float32)
        self.observation_space = observation_space(self.timers.count, own.costs)  # type: ignore[assignment]
        self._in_order = seeds_in_order(own.seeds, self.scenario.seeds)
        self.turn = 0, 1  # number of this environment, and of all that play ``seeds`` together
        self._seed = NO_SEED  # of the last episode
        self._no_metrics: dict[str, float] = {}
        self._run: Any = None
        self._over = True

    # --- Gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw a workload; the class docstring explains ``seed``."""
        check_reset_options(options)
        super().reset(seed=seed)
        self._seed = self._next_seed() if seed is None else seed
        instance = self.scenario.instance(self._seed)
        constant = {"tuner": "off", "rack_wait": 0.0, "nw_wait": 0.0}
        own = {"tuner": "hand"} if self.timers.residual else constant
        self._run = DelayRun(instance, Dally(**(own | (self._options.scheduler or {}))), self._seed)
        self._no_metrics = dict.fromkeys(metric_names(instance), math.inf)
        self._scale = COMPONENTS["jct"].scale(instance) if self._options.scale is None else float(self._options.scale)
        self._limit_s = min(instance.semantics.time_limit_s, float(self._options.horizon_s))
        self._observer = TimerObserver(self.simulation, self.timers, self.interval_s, self._options.costs)
        self._steps, self._clock_s, self._paid_s, self._over = 0, 0.0, 0.0, False
        if self.render_mode == HUMAN:
            self.render()
        return self._observer.observe(self._run.waits_s, self._clock_s), self._info(0.0)

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Set the timers and play one tuning interval."""
        if self._over:
            raise gym.error.ResetNeeded("call reset() before step(): no episode is running")
        self.timers.carry_out(action, self._run)
        self._steps += 1
        until_s = min(self._steps * self.interval_s, self._limit_s)
        self._run.play(until_s)
        world = self.simulation.arrays.world
        terminated = bool(world["finished"] == world["jobs"])
        truncated = not terminated and until_s >= self._limit_s
        now_s = float(world["clock_s"]) if terminated else until_s
        in_system = int(world["entered"] - world["finished"])
        spent_s = float(world["job_seconds"]) + in_system * (now_s - float(world["clock_s"]))
        reward = (self._paid_s - spent_s) / self._scale
        dt = now_s - self._clock_s
        self._paid_s, self._clock_s = spent_s, now_s
        info = self._info(dt)
        if terminated or truncated:
            self._over = True
            log = self.event_log()
            info["digest"] = log.digest()
            if terminated:
                info["metrics"] = summarise(self.simulation.instance, log)
        if self.render_mode == HUMAN:
            self.render()
        return self._observer.observe(self._run.waits_s, self._clock_s), reward, terminated, truncated, info

    render = draw
    close = close_window

    # --- beyond Gymnasium

    @property
    def simulation(self) -> Simulation:
        """The running simulation; raises ResetNeeded before the first reset."""
        if self._run is None:
            raise gym.error.ResetNeeded("call reset() first: there is no simulation yet")
        simulation: Simulation = self._run.simulation
        return simulation

    @property
    def shown_queue(self) -> np.ndarray:
        """int32: rows of the waiting jobs that pictures show."""
        return waiting_rows(self.simulation.arrays)

    def event_log(self) -> EventLog:
        """Return the event log of this episode so far."""
        return self.simulation.log()

    # --- inside

    def _next_seed(self) -> int:
        if self._in_order is None:
            own = self._options.train_seeds
            return int(self.np_random.integers(*(self.scenario.seeds.train if own is None else own)))
        return next_seed(self._in_order, self._seed, *self.turn)

    def _info(self, dt: float) -> dict[str, Any]:
        """Return the info of a reset or a step; the keys are always the same."""
        world = self.simulation.arrays.world
        return {
            "seed": self._seed,
            "dt": dt,
            "jobs_left": int(world["jobs"] - world["finished"]),
            "mean_time_in_system_s": self._paid_s / max(int(world["entered"]), 1),
            "metrics": self._no_metrics.copy(),
            "digest": "",
        }


DelayTimersEnv.__signature__ = signature_of(DelayTimersEnv, TimerOptions)  # type: ignore[attr-defined]
