"""The Gymnasium environment around the simulator."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gpusched_env import __version__
from gpusched_env.core.state import State, lengths, refill
from gpusched_env.envs.actions import Action, meaning_of, number_of
from gpusched_env.envs.checks import check_begin, check_instance
from gpusched_env.envs.encoder import Encoder, Observation
from gpusched_env.envs.episode_seeds import NO_SEED, next_seed, seeds_in_order
from gpusched_env.envs.observation.registry import ObservedArray, arrays_shown
from gpusched_env.envs.options import EpisodeOptions, check_reset_options, made_of, signature_of
from gpusched_env.envs.rendering import FRAMES_PER_S, RENDER_MODES
from gpusched_env.envs.rendering import render as draw
from gpusched_env.envs.rewards import parse_reward
from gpusched_env.envs.snapshots import Snapshot
from gpusched_env.envs.step import NO_ACTION, RESUME
from gpusched_env.envs.step_results import DT, FIRST_COMPONENT, REFUSALS, REWARD, TERMINATED, TRUNCATED
from gpusched_env.envs.window import HUMAN
from gpusched_env.envs.window import close as close_window
from gpusched_env.envs.windows import STEPS_PER_JOB, Windows
from gpusched_env.errors import ScenarioError
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import metric_names, summarise
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Simulation

if TYPE_CHECKING:
    from gpusched_env.envs.checks import CheckedGangs
    from gpusched_env.problem.instance import Instance
    from gpusched_env.scenarios import Scenario, Variation
    from gpusched_env.simulator import Decision, Preempt, Refuse, Resize, Simulation, Start


class ClusterEnv(gym.Env[Observation, np.int64]):
    """Schedule distributed training jobs on a GPU cluster: choose which job starts, where, and which is preempted.

    ## Description
    A cluster of GPUs receives distributed training jobs. Each job is a gang: all its GPUs start and stop together.
    A placement that spreads a gang over several machines or racks slows the gang down. The agent is asked at every
    event (arrival, completion, release of GPUs, end of a lease), or once per round if the scenario plays in rounds.
    It may make any number of decisions before it waits. A decision takes no simulated time; only waiting does. The
    simulation is exact: time jumps from event to event.

    ## Action Space
    ``Discrete(K * P + V + 1 + W)`` for K queue slots, P placement rules, V running slots and W delays:

    | action | meaning |
    |---|---|
    | ``k * P + p`` | start the job in queue slot k by placement rule p |
    | ``K * P + v`` | preempt the job in running slot v (checkpoint, then its GPUs are free) |
    | ``K * P + V`` | wait for the next event |
    | ``K * P + V + 1 + w`` | wait for the next event, but at most ``delays_s[w]`` seconds |

    ``info["action_mask"]`` and ``env.action_masks()`` mark the feasible actions. An infeasible action changes nothing
    and costs ``refusal_cost``; ``info["refusals"]`` counts such actions. These actions are infeasible:

    * a start for which the cluster has no place,
    * a preemption of a gang that has held its GPUs for less than ``least_run_s``, unless its lease has ended,
    * a preemption of a gang at the instant at which it started, or while it is being checkpointed,
    * with ``limits``, a start or a resize by which a tenant would hold more GPUs than it may,
    * a preemption while no job waits, unless ``migration`` is True,
    * a wait for the next event when nothing runs, no job will arrive and no timer is set.

    Where jobs may share GPUs, ``partner_window`` adds C partner slots. Each shows a running gang that a waiting job may
    join. With ``sub_batches`` = S > 0, a start names one of S sub-batches. ``K * P`` above is then
    ``K * (P + C) * S``, with S = 1 if starts name no sub-batch:

    | action | meaning |
    |---|---|
    | ``(k * (P + C) + p) * S + s`` | start the job in queue slot k by placement rule p, at sub-batch s |
    | ``(k * (P + C) + P + i) * S + s`` | start the same job beside the gang in partner slot i, at sub-batch s |

    Sub-batch s halves the batch of each GPU s times. With ``sub_batches`` = 0 a job gets the sub-batch that its
    placement rule chooses, or else the largest one for which its GPUs have memory left. Beside a partner, a job gets
    the partner's GPUs that have room, in ascending order, and then free GPUs if these are too few.

    Where jobs are elastic, ``sizes`` names S numbers of GPUs, for starts and for resizes. ``K * P`` above is then
    ``(K + V) * P * S``:

    | action | meaning |
    |---|---|
    | ``(k * P + p) * S + s`` | start the job in queue slot k by placement rule p, on ``sizes[s]`` GPUs |
    | ``K * P * S + (v * P + p) * S + s`` | resize the gang in running slot v to ``sizes[s]`` GPUs, by rule p |

    A size that the job does not have is infeasible, and so is a resize to the present size, or before the gang has held
    its GPUs for ``least_run_s``; no job need wait.

    ``more_actions`` names registered actions about the jobs in the slots, which come last: one for each queue slot or
    for each running slot. ``"refuse"`` refuses the job in a queue slot, which then leaves the system.

    ``env.action_meaning(action)`` returns what a number means now, for example ``Action(kind="start", slot=3,
    rule="pack", job=17)``; ``gpusched_env.envs.actions`` has this class. ``env.action_of(...)`` is the inverse. It also
    takes a decision, such as ``Start(17, "pack")``.

    ## Observation Space
    ``Dict`` of float32 arrays, all values in [0, 1]: ``queue`` and ``running``, one row per slot, ``nodes``, ``links``,
    one row per tier (machine, rack, network), ``cluster``, and optionally ``action_mask``. Where the scenario's network
    is a topology, ``links`` has one row per link, and ``flows`` shows how contention slows the gang in each running
    slot. More arrays describe GPU types and copies, jobs that share GPUs, with ``sizes`` the sizes of jobs, and with
    ``tenant_window`` tenants. A scenario that varies, or has ``room`` for larger ones, shows rows of 0 for what a
    problem lacks. ``env.arrays()`` returns all arrays with their columns.
    ``docs/observation_and_action.md`` defines every column.

    ## Rewards
    By default the reward of a step is minus the integral of the number of jobs in the system over the elapsed time,
    scaled. ``reward`` names another component or gives weights, for example ``{"jct": 1.0, "fairness": 0.1}``.
    ``info["rewards"]`` holds each component. The reward of an infeasible action is lower by ``refusal_cost``, which no
    component includes. ``info["dt"]`` holds the elapsed simulated time [s], for semi-Markov discounting.

    ## Starting State
    The simulation begins at time 0, before the first arrival, and ``reset`` plays up to the first decision.
    ``reset(seed=s)`` draws the workload of scenario seed ``s``: use the scenario's training, validation and report
    ranges. ``reset()`` without a seed draws a training seed, or plays the next one of the range that ``seeds`` names:
    pass ``seeds="validation"`` or ``"report"`` to environments that evaluate, because code of others resets without a
    seed. If the scenario varies, the seed also determines cluster, network and rules, and ``train_on`` narrows the
    problems of training.

    ## Episode End
    After the last step, the mask has one feasible action, the plain wait. The episode ends if one of these occurs:

    1. Termination: every job has finished.
    2. Truncation: simulated time reaches the scenario's ``time_limit_s``.
    3. Both: ``step_limit`` steps have been taken. The environment then plays the remaining jobs to their end without
       the agent, and the reward of the last step includes this time, so a return is always that of a complete
       schedule. Waiting jobs start in order of arrival, by the first of ``rules``; a job that finds no place blocks
       those behind it. While nothing runs, the other rules are tried as well. Nothing is preempted. The step is a
       truncation only if ``time_limit_s`` ends this play, or if some job can never finish.

    The last ``info`` holds ``metrics`` (see ``docs/metrics.md``) and ``digest``, the SHA-256 of the event log. Every
    ``info`` has the same keys: before the end, ``metrics`` are infinite and ``digest`` is empty.

    ## Arguments
    ```python
    gymnasium.make("gpusched_env:gpusched/Cluster-v0", scenario="philly-64-v1", rules=("pack", "consolidate"))
    ```

    Parameters
    ----------
    scenario : a scenario's name, the path of a JSON or TOML file, or a Scenario
    queue_window : K, number of waiting jobs shown
    running_window : V, number of running jobs shown; 0 = the agent never preempts
    rules : placement rules that the agent may choose from (gpusched_env.simulator.PLACEMENT_RULES)
    delays_s : W delays [s] for bounded waits; must be empty if the scenario plays in rounds
    queue_order : which waiting jobs fill the queue slots, and in which order: "arrival", "shortest", "longest",
        "least-attained" or "most-attained"
    running_order : which running jobs fill the running slots: as ``queue_order``, or "start"
    clairvoyant : show remaining run times; if False, those columns are 0 and orders by run time are refused
    migration : allow preemption even while no job waits, so that a job can be started again elsewhere
    lease_s : length of a gang's lease on its GPUs [s]. At the end of a lease the agent is asked while the gang still
        holds the GPUs. It may preempt the gang, or wait, which renews the lease at no cost. None = no leases
    least_run_s : time for which a gang must have held its GPUs, since it last started, before the agent may preempt it
        [s]; without it, random play preempts most gangs again and again, and hardly anything finishes. At the end of a
        lease a gang may be preempted whatever its age. None = ten times what a preemption costs in the scenario
        (``checkpoint_s + restore_s``), at least 60 s; 0 = no limit
    partner_window : C, number of running gangs shown as partners beside which a job may start, in ``running_order``.
        Gangs that are being checkpointed, or whose GPUs take no further job, are left out
    sub_batches : S, number of sub-batches that a start may name, each half of the one before; 0 = starts name none
    pair_benefit : show how much the mean JCT of a waiting job and a partner gains by sharing (SJF-BSBF, Theorem 1)
    extras : registered observation arrays to show (gpusched_env.envs.observation.registry)
    sizes : S ascending numbers of GPUs on which an action may start or resize an elastic job; empty = jobs keep the
        sizes that they request
    tenant_window : Q, number of tenants that the observation has rows for, at least those of the scenario; 0 = it shows
        no tenants
    limits : a start or a resize by which a tenant, or one above it, would hold more GPUs than it may (its field
        ``most``, or quota + ``borrow`` if that is less) is infeasible; the play after the step limit obeys limits, too
    more_actions : registered actions about the jobs in the slots (gpusched_env.envs.actions)
    predictor : predictor of run times (gpusched_env.prediction) whose outlook the observation shows; "" = none
    reward : name of a reward component, or weights of several
    refusal_cost : subtracted from the reward of an infeasible action; an agent that obeys the mask never pays it
    skip_forced_waits : do not ask while waiting is the only feasible action
    mask_in_observation : also put the mask into the observation, as key ``action_mask``
    step_limit : number of steps after which the agent is cut off (Episode End); None = 100 per job. Use it instead of
        ``max_episode_steps`` of ``gymnasium.make`` and ``make_vec``, which drops the remaining jobs
    seeds : what ``reset()`` without a seed plays: "train" draws training seeds; "validation", "report" or a pair
        (first, end) play each seed of this range in turn, after ``reset(seed=s)`` from s + 1 on
    render_mode : None, "ansi" (text), "rgb_array" (picture) or "human" (a window)

    Raises
    ------
    ScenarioError : an unknown name or impossible value

    ## Vectorised Environment
    ``gymnasium.make_vec`` makes a :class:`~gpusched_env.envs.cluster_vector_env.ClusterVectorEnv`. One call of its
    ``step`` steps all environments in compiled code, on all cores.

    ## Version History
    * v0: first version
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(RENDER_MODES), "render_fps": FRAMES_PER_S}  # type: ignore[misc]

    def __init__(self, scenario: str | Scenario = "philly-64-v1", **options: Any) -> None:

        windows, own = made_of(options, Windows, EpisodeOptions)
        self.windows: Windows = windows
        self._options: EpisodeOptions = own
        self.scenario = get_scenario(scenario) if isinstance(scenario, str) else scenario
        shares = self.scenario.sharing is not None
        self.windows.check_sharing(shares)
        if self.windows.delays_s and self.scenario.semantics.round_s > 0:
            raise ScenarioError("delays_s: the scenario plays in rounds, which alone end a wait; leave delays_s empty")
        self.render_mode = own.render_mode
        self.reward_weights = parse_reward(own.reward)
        self._component = next(iter(self.reward_weights))
        self.refusal_cost, self.skips_forced_waits = own.refusal_cost, own.skip_forced_waits
        self._mask_in_observation = own.mask_in_observation
        self._actions = self.windows.actions
        self.action_space = spaces.Discrete(self._actions)
        planned = self.scenario.workload.planned
        self.axes = self.windows.axes(self.scenario.observed, self.scenario.semantics, shares, planned)
        boxes: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(0.0, 1.0, shape, np.float32) for name, shape in self.shapes().items() if shape[0] > 0
        }  # without empty arrays, since no learner accepts them
        if self._mask_in_observation:
            boxes["action_mask"] = spaces.Box(0, 1, (self._actions,), np.int8)
        self.observation_space = spaces.Dict(boxes)  # type: ignore[assignment]
        self._encoder: Encoder | None = None
        self._checked_gangs: CheckedGangs = {}
        self._over = True
        self._seed = NO_SEED  # of the last episode
        self._in_order = seeds_in_order(own.seeds, self.scenario.seeds)
        self._no_metrics: dict[str, float] = {}
        self._part: Variation | None = None

    # --- Gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw a workload and play up to the first decision; the class docstring explains ``seed``."""
        check_reset_options(options)
        super().reset(seed=seed)
        drawn = self.draw_seed(self.np_random, self._seed) if seed is None else seed
        instance = self.scenario.instance(drawn)
        check_instance(instance, self.windows)
        self._over = True  # until the first decision is reached
        self._begin(instance, drawn)
        self.encoder.step(RESUME)
        self._over = False
        self._no_metrics = dict.fromkeys(metric_names(instance), math.inf)
        if self.render_mode == HUMAN:
            self.render()
        return self._seen(0)

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play one action.

        Raises
        ------
        gymnasium.error.ResetNeeded : before the first reset, or after the end of an episode
        GpuschedError : the action is not an integer of the action space

        An error of a placement rule, a contention model, a reward component, an observation array or an action of a
        user ends the episode: only :meth:`reset` helps.
        """
        encoder = self._encoder
        if self._over or encoder is None:
            raise gym.error.ResetNeeded("call reset() before step(): no episode is running")
        if type(action) is not int or not 0 <= action < self._actions:
            action = self.windows.checked(action)
        try:
            over = encoder.step(action)
        except BaseException:
            self._over = encoder.simulation.arrays.failure is not None
            raise
        if self.render_mode == HUMAN:
            self.render()
        observation, mask = encoder.take()
        results = encoder.results.tolist()
        if len(results) == FIRST_COMPONENT + 1:
            paid = {self._component: results[FIRST_COMPONENT]}
        else:
            paid = dict(zip(self.reward_weights, results[FIRST_COMPONENT:], strict=True))
        info = self._info(mask, results[DT], int(results[REFUSALS]), paid)
        if self._mask_in_observation:
            observation["action_mask"] = mask.copy()
        if not over:
            return observation, results[REWARD], False, False, info
        self._over = True
        info |= self.summary(self.simulation)
        return observation, results[REWARD], results[TERMINATED] > 0.0, results[TRUNCATED] > 0.0, info

    def action_masks(self) -> np.ndarray:
        """Feasible actions, bool [actions]; sb3-contrib looks for a method of this name."""
        return self.mask.astype(bool)

    def action_meaning(self, action: int) -> Action:
        """Return what an action means, with the row of the job in its slot now: the inverse of :meth:`action_of`."""
        action = self.windows.checked(action)
        return meaning_of(self.windows, action) if self._encoder is None else self._encoder.meaning_of(action)

    def action_of(self, wanted: Action | Start | Preempt | Resize | Refuse) -> int | None:
        """Return the number of an action, or of the action that makes a decision now.

        None = the decision would be refused or change nothing.

        Raises
        ------
        GpuschedError : there is no such action; the message says which arguments make one
        gymnasium.error.ResetNeeded : a decision before the first reset
        """
        return number_of(self.windows, wanted) if isinstance(wanted, Action) else self.encoder.action_of(wanted)

    render = draw
    close = close_window

    # --- beyond Gymnasium

    @property
    def encoder(self) -> Encoder:
        """Encoder of the running simulation; raises ResetNeeded before the first reset."""
        if self._encoder is None:
            raise gym.error.ResetNeeded("call reset() first: there is no simulation yet")
        return self._encoder

    @property
    def simulation(self) -> Simulation:
        """The running simulation; raises ResetNeeded before the first reset."""
        simulation: Simulation = self.encoder.simulation
        return simulation

    @property
    def mask(self) -> np.ndarray:
        """int8 [actions]: feasible actions."""
        return np.zeros(self.windows.actions, np.int8) if self._encoder is None else self._encoder.mask

    @property
    def shown_queue(self) -> np.ndarray:
        """int32: rows of the waiting jobs that pictures show; -1 = none."""
        return self.encoder.queue_slots

    def event_log(self) -> EventLog:
        """Return the event log of this episode so far."""
        return self.simulation.log()

    def arrays(self) -> dict[str, ObservedArray]:
        """Return the declarations of the observation arrays, which name their columns; empty arrays are included."""
        return arrays_shown(self.axes, self.windows.extras)

    def shapes(self, **lengths: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the observation arrays, empty ones included; ``lengths`` replaces those of some axes."""
        return {name: one.shape(self.axes | lengths) for name, one in self.arrays().items()}

    def train_on(self, **ranges: Any) -> None:
        """Draw training seeds whose problems lie in part of the scenario's variation, from the next reset on.

        This concerns only resets that draw a seed. Without arguments, all training seeds are drawn again.

        Parameters
        ----------
        ranges : fields of :class:`~gpusched_env.scenarios.Variation`, with fewer choices or smaller ranges, such as
            ``racks=(3,), load=(0.6, 0.9)``
        """
        if self._in_order is not None:
            raise ScenarioError('train_on: this environment plays no training seeds; make it with seeds="train"')
        self._part = self.scenario.part(ranges)

    def draw_seed(self, rng: np.random.Generator, last: int, number: int = 0, environments: int = 1) -> int:
        """Return the seed of the next episode, as ``seeds`` and :meth:`train_on` say; ``rng`` draws training seeds.

        The other parameters are those of :func:`next_seed`.
        """
        if self._in_order is None:
            return self.scenario.train_seed(rng, self._part)
        return next_seed(self._in_order, last, number, environments)

    def limit(self, instance: Instance) -> int:
        """Return the number of steps after which the agent is cut off."""
        return STEPS_PER_JOB * len(instance.workload) if self._options.step_limit is None else self._options.step_limit

    def summary(self, simulation: Simulation) -> dict[str, Any]:
        """Return the metrics and the digest of an episode."""
        log = simulation.log()
        return {"metrics": summarise(simulation.instance, log, simulation.now_s), "digest": log.digest()}

    def snapshot(self) -> Snapshot:
        """Return the state of the environment as a value, which :meth:`restore` continues from as often as you like.

        It holds everything that later steps depend on, and the event log, but not the random generator of ``reset``.

        Raises
        ------
        gymnasium.error.ResetNeeded : before the first reset
        """
        encoder = self.encoder
        return Snapshot(
            __version__, self._fingerprint, self._seed, self.windows, self._settings, encoder.simulation.state(),
            encoder.state(), self._over,
        )  # fmt: skip

    def restore(self, snapshot: Snapshot) -> tuple[Observation, dict[str, Any]]:
        """Continue from a snapshot of this environment, or of an equal one in another process.

        Returns
        -------
        observation, info : as of ``reset``, at the time of the snapshot
        """
        snapshot.check(self._fingerprint, self.windows, self._settings)
        if self._encoder is None or self._seed != snapshot.seed:
            generator = self._np_random, self._np_random_seed
            self.reset(seed=snapshot.seed)
            self._np_random, self._np_random_seed = generator
        encoder = self.encoder
        encoder.simulation.restore(snapshot.run)
        encoder.restore(snapshot.episode)
        self._over = snapshot.is_over
        return self._seen(int(encoder.results[REFUSALS]))

    @property
    def _settings(self) -> tuple[Any, ...]:
        """What later steps depend on, beside scenario and windows."""
        own = self._options
        return tuple(self.reward_weights.items()), own.refusal_cost, own.step_limit, own.skip_forced_waits

    @cached_property
    def _fingerprint(self) -> str:
        return self.scenario.fingerprint()

    def decide(self, decision: Decision) -> str:
        """Carry out a decision that no action makes, such as a lease; return the reason of a refusal, or empty text."""
        refusal = self.simulation.apply(decision)
        self.encoder.step(NO_ACTION)  # with a timer set, waiting may have become feasible
        return refusal

    # --- inside

    def _begin(self, instance: Instance, seed: int) -> None:
        """Begin a run: in the arrays of the last one if it needs as many rows, which takes half the time."""
        sizes, encoder = lengths(instance), self._encoder
        self._encoder = None  # in case of an error
        if encoder is None or encoder.state_of_run is None or encoder.state_of_run.sizes_of_axes != sizes:
            encoder, state = None, State(1, sizes)
            arrays = state.handle(0)
        else:
            state, arrays = encoder.state_of_run, encoder.simulation.give_up()
        refill(state, 0, instance, seed)
        simulation, limit = Simulation(instance, arrays=arrays), self.limit(instance)
        check_begin(simulation, self.windows, self._checked_gangs)
        if encoder is None:
            encoder = Encoder(
                self.windows, simulation, self.skips_forced_waits, self.reward_weights, limit, self.refusal_cost
            )
            encoder.state_of_run = state
        else:
            encoder.again(simulation, limit)
        self._encoder, self._seed = encoder, seed

    def _seen(self, refusals: int) -> tuple[Observation, dict[str, Any]]:
        """Return observation and info without a step."""
        observation, mask = self.encoder.take()
        if self._mask_in_observation:
            observation["action_mask"] = mask.copy()
        return observation, self._info(mask, 0.0, refusals, dict.fromkeys(self.reward_weights, 0.0))

    def _info(self, mask: np.ndarray, dt: float, refusals: int, rewards: dict[str, float]) -> dict[str, Any]:
        """Return the info of a reset or a step; the keys are always the same."""
        return {
            "action_mask": mask,
            "dt": dt,
            "refusals": refusals,
            "rewards": rewards,
            "seed": self._seed,
            "metrics": self._no_metrics.copy(),
            "digest": "",
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> ClusterEnv:
        """Copy the state of the run; scenario, instance, windows, options and the checked gangs are shared."""
        twin = type(self).__new__(type(self))
        shared = self.scenario, self.windows, self._options, self.spec, self._checked_gangs
        memo |= {id(self): twin} | {id(one): one for one in shared}
        twin.__dict__ |= {name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()}
        return twin


ClusterEnv.__signature__ = signature_of(ClusterEnv, Windows, EpisodeOptions)  # type: ignore[attr-defined]
