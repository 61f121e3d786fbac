"""The arrays of one environment: configuration, episode, slots, rewards and observation, each declared once."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Handle, array

__all__ = ["EnvArrays"]

CONFIG_DTYPE: Final = np.dtype(
    [
        ("queue_order", "<i8"),  # WINDOW_ORDERS
        ("running_order", "<i8"),
        ("clairvoyant", "<i8"),
        ("migration", "<i8"),
        ("skip_forced_waits", "<i8"),
        ("sub_batches", "<i8"),  # number of sub-batches that a start may name; 0 = starts name none
        ("options", "<i8"),  # start actions of a job by one rule: its sub-batches or sizes, at least 1
        ("pair_benefit", "<i8"),
        ("anywhere", "<i8"),  # 1 = every placement rule accepts any free GPUs
        ("lease_s", "<f8"),  # [s] length of a lease, after which the agent is asked again; inf = no leases
        ("refusal_cost", "<f8"),  # subtracted from the reward of an infeasible action
        ("first_slot_action", "<i8"),  # number of the first action of ``slot_actions``
        ("first_preemption", "<i8"),  # number of the action that preempts running slot 0
        ("limits", "<i8"),  # 1 = no start or resize exceeds a limit of a tenant
    ]
)
EPISODE_DTYPE: Final = np.dtype(
    [
        ("clock_s", "<f8"),  # [s] when the last step ended
        ("episode_return", "<f8"),  # sum of rewards
        ("steps", "<i8"),
        ("step_limit", "<i8"),
        ("refusals", "<i8"),
        ("stepping", "<i8"),  # 1 = a step has begun and has not ended because the log was full
        ("keeps_log", "<i8"),  # 0 = the log is thrown away
        ("outcome", "<i8"),  # last outcome of advance
        ("is_refused", "<i8"),  # 1 = the last action was infeasible
        ("row", "<i8"),  # row of the arrays of copies to which the next observation is copied
        ("playing_out", "<i8"),  # how far a run is played on after its step limit: step.py; 0 = not at all
        ("least_run_s", "<f8"),  # [s] for which a gang must have held its GPUs before an action may preempt it
    ]
)
CLASS_DTYPE: Final = np.dtype(
    [("ideal_iteration_s", "<f8"), ("rack_loss", "<f8"), ("network_loss", "<f8"), ("skew", "<f8")]
)
SHOWN_LINK_DTYPE: Final = np.dtype([("capacity", "<f8"), ("tier", "<f8")])  # scaled as in observation.links.LINKS
TENANT_DTYPE: Final = np.dtype(
    [
        # the tree, fixed; row 0 is the root
        ("parent", "<i8"),  # row of the tenant above, which comes before; -1 = root, or no tenant
        ("most", "<i8"),  # [GPU] that its jobs may hold: TenantTree.limits
        ("quota", "<f8"),  # quota / GPUs of the cluster, at most 1
        ("deserved", "<f8"),  # entitlement, a share of the cluster
        # present state, of the tenants below it together (tenant_limits.py)
        ("held", "<i8"),  # [GPU]
        ("room", "<i8"),  # [GPU] that its jobs may still take
        ("waiting", "<i8"),  # jobs
        ("demand", "<i8"),  # [GPU] that waiting jobs ask for
        ("waited_s", "<f8"),  # [s] since a waiting job last held GPUs, or arrived: the longest
        ("shown_wait", "<f8"),  # the same as observations show it
    ]
)
SLOT_ACTION_DTYPE: Final = np.dtype(
    [
        ("number", "<i8"),  # actions.SLOT_ACTIONS
        ("running", "<i8"),  # 1 = there is one for each running slot; 0 = for each queue slot
    ]
)
# State of the run at the last ranking of gangs (slots.py).
RANKED_DTYPE: Final = np.dtype(
    [
        ("clock_s", "<f8"),
        ("starts", "<i8"),  # as WORLD.starts
        ("returns", "<i8"),
        ("running", "<i8"),
        ("gangs", "<i8"),  # gangs kept; -1 = no ranking yet
        ("queue_slots", "<i8"),  # filled queue slots
        ("running_slots", "<i8"),  # filled running slots
    ]
)
# What the observation held when it was last written: the next step rewrites only what has changed.
SEEN_DTYPE: Final = np.dtype(
    [
        ("machines", "<i8"),  # entirely free machines
        ("gpus", "<i8"),  # GPUs of these machines
        # as in WORLD when the tiers were last summed
        ("starts", "<i8"),
        ("returns", "<i8"),
    ]
)
UNSEEN: Final = -1  # not shown yet: the free GPUs of a machine or rack, or the job of a slot
# What may differ from the last observation.
CHANGED_DTYPE: Final = np.dtype(
    [
        ("same_time", "<i8"),  # 1 = no simulated time has passed, so at most a decision about ``job`` has been made
        ("job", "<i8"),  # row of the job that an action has started, resized or preempted; -1 = any job may differ
    ]
)


class EnvArrays(Handle):
    """The arrays of one environment, beside those of its run."""

    config = array(CONFIG_DTYPE)
    episode = array(EPISODE_DTYPE)
    rules = array(np.int32, "rules")  # numbers of the placement rules that actions can name
    delays = array(np.float64, "delays")  # [s] lengths of the bounded waits
    slot_actions = array(SLOT_ACTION_DTYPE, "slot_actions")  # registered actions
    gang_sizes = array(
        np.int32, "gang_sizes"
    )  # [GPU] sizes that a start or a resize may name; none = actions name no size
    classes = array(CLASS_DTYPE, "classes")
    shown_links = array(SHOWN_LINK_DTYPE, "shown_links")
    rates = array(
        np.float64, "type_classes", "types"
    )  # rates of each job class on each GPU type: observation.types.relative_rates
    mean_rates = array(np.float64, "types")  # of the waiting jobs, on each GPU type
    tenants = array(TENANT_DTYPE, "tree")  # the tree of tenants; 0 rows = the observation shows none
    leaf = array(np.int32, "tenant_jobs")  # row of each job's leaf in ``tenants``
    # what ended jobs tell about the others (observation/outlook.py); none = no predictor
    outlook_s = array(np.float64, "outlooks", "levels_of_time", "outlook_columns")  # [s] by class of jobs and level
    outlook_of = array(np.int32, "predicted_jobs")  # class of each job; 0 = that of all jobs
    limits_s = array(np.float64, "predicted_jobs")  # [s] run time that its user requests; NaN = none
    # the slots that actions refer to
    queue = array(np.int32, "queue", fill=-1)  # job rows in the queue slots; -1 = empty
    victims = array(np.int32, "running", fill=-1)
    partners = array(np.int32, "partners", fill=-1)
    mask = array(np.int8, "actions")
    # what was last ranked and shown
    keys = array(np.float64, "keys")
    ranked = array(RANKED_DTYPE)
    first_gangs = array(np.int32, "first_gangs")
    first_keys = array(np.float64, "first_gangs")
    seen = array(SEEN_DTYPE)
    changed = array(CHANGED_DTYPE)
    seen_free = array(np.int32, "places", fill=UNSEEN)  # free GPUs of machines, then racks, as last shown
    tier_sums = array(np.float64, "tiers", "tier_columns")
    # rewards
    components = array(np.int64, "components")  # numbers in rewards.COMPONENTS
    weights = array(np.float64, "components")
    scales = array(np.float64, "components")
    levels = array(np.float64, "components")  # levels at the end of the last step
    results = array(np.float64, "results")  # columns: step_results.py
    # the observation arrays (observation/registry.py): their numbers, the addresses of their handles, and the memory of
    # their kernels
    array_numbers = array(np.int64, "arrays")
    array_addresses = array(np.int64, "arrays")
    array_keys = array(np.int64, "array_rows", fill=UNSEEN)
    # for a single environment: all arrays of its observation in one block, so that one loop copies them
    block = array(np.float32, "block")
    copies = array(np.float32, "rows", "block")  # 0 rows = no copies are wanted
    copies_of_mask = array(np.int8, "rows", "actions")


class BatchArrays(Handle):
    """The environments that one call steps: the addresses of their handles, and their actions."""

    runs = array(np.int64, "environments")
    envs = array(np.int64, "environments")
    actions = array(np.int64, "environments")
