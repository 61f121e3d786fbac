"""What a value that is kept looks like, by its kind; a text of another form could be a name, and is left out."""

from __future__ import annotations

import re
from typing import Final

from gpusched_env.traces.formats.slurm import STATES
from gpusched_env.traces.parsing.slurm_fields import REASON


def _any(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


_AMOUNT: Final = r"[0-9]+(?:\.[0-9]+)?[kmgtpe]?[nc]?"
# Of nodes and partitions. Source: node_states, node_state_flags and node_state_string_compact in
# src/common/slurm_protocol_defs.c of Slurm, NODE STATE CODES of sinfo(1), and State of partitions in slurm.conf(5)
_STATE: Final = _any(
    "UNKNOWN UNK DOWN IDLE ALLOCATED ALLOC MIXED MIX ERROR FUTURE FUTR UNDRAIN DRAIN DRAINED DRAINING DRNG COMPLETING "
    "COMP RESERVED RESV MAINT MAINTENANCE PLANNED PLND FAIL FAILING FAILG INVAL INVALID INVALID_REG BLOCKED BLOCK "
    "PERFCTRS NPC CLOUD DYNAMIC_NORM DYNAMIC_FUTURE EXTERNAL POWER_DOWN POWER_UP POWERED_DOWN POWERING_DOWN "
    "POWERING_UP POW_DN POW_UP REBOOT REBOOT_ISSUED REBOOT_REQUESTED REBOOT_CANCELED BOOT NOT_RESPONDING NO_RESPOND "
    "RES RESUME RESM UP INACTIVE INACT CANCEL_REBOOT CANC_R POWRING_DN POWERED_DN POWER_DRAIN PARKED N/A"
)
# Source: SchedulerParameters and PreemptParameters in slurm.conf(5) of Slurm, of old and new versions, and what
# _load_config in src/plugins/sched/backfill/backfill.c reads
_PARAMETER: Final = _any(
    "allow_zero_lic assoc_limit_stop batch_sched_delay bb_array_stage_cnt bf_allow_magnetic_slot bf_busy_nodes "
    "bf_continue bf_hetjob_immediate bf_hetjob_prio bf_interval bf_job_part_count_reserve bf_licenses "
    "bf_max_job_array_resv bf_max_job_assoc bf_max_job_part bf_max_job_start bf_max_job_test bf_max_job_user "
    "bf_max_job_user_part bf_max_time bf_min_age_reserve bf_min_prio_reserve bf_node_space_size bf_one_resv_per_job "
    "bf_resolution bf_running_job_reserve bf_topopt_enable bf_topopt_iterations bf_window bf_window_linear "
    "bf_yield_interval bf_yield_rpc_cnt bf_yield_rpc_count bf_yield_sleep max_rpc_count build_queue_timeout "
    "default_gbytes default_queue_depth defer defer_batch delay_boot disable_hetero_steps disable_hetjob_steps "
    "disable_job_shrink enable_hetero_steps enable_hetjob_steps enable_job_state_cache enable_user_top "
    "inventory_interval kill_invalid_depend ignore_numa ignore_prefer_validation max_array_tasks max_depend_depth "
    "max_job_bf max_rpc_cnt max_sched_time max_script_size max_submit_line_size max_switch_wait no_backup_scheduling "
    "no_env_cache nohold_on_prolog_fail pack_serial_at_end partition_job_depth preempt_reorder_count "
    "preempt_send_user_signal preempt_strict_order preempt_youngest_first preempt_youngest_order "
    "reduce_completing_frag requeue_delay requeue_setup_env_fail salloc_wait_nodes sbatch_wait_nodes sched_interval "
    "sched_max_job_start sched_min_interval spec_cores_first step_retry_count step_retry_time time_min_as_soft_limit "
    "whole_hetjob whole_pack min_exempt_priority reclaim_licenses reorder_count send_user_signal strict_order "
    "suspend_grace_time youngest_first youngest_order"
)
# Source: PreemptMode in slurm.conf(5), and of a QOS in sacctmgr(1)
_MODE: Final = _any("OFF NONE CANCEL GANG REQUEUE SUSPEND WITHIN CLUSTER PRIORITY CHECKPOINT")
# sacct and squeue cut long words, as CANCELLED+
_CUT: Final = " ".join({state[:n] for state in STATES for n in range(5, len(state) + 1)})
# Kind of a value -> pattern; letters of both cases count as equal. Source: slurm.conf(5) for available, share, plugin,
# select, flag and period; gres.conf(5) for detection; Slurm's page on trackable resources for resource
PATTERNS: Final = {
    kind: re.compile(pattern, re.I | re.ASCII)
    for kind, pattern in {
        "number": rf"-?{_AMOUNT}|UNLIMITED|INFINITE|NONE|N/A|",
        "counts": r"[0-9]+[kmg]?(?:[,/][0-9]+[kmg]?)*|",
        "span": r"[0-9]+(?:[-:.][0-9]+)*|UNLIMITED|INFINITE|NONE|DEFAULT|PARTITION_LIMIT|NOT_SET|INVALID|n/a|\(null\)|",
        "switch": _any("YES NO TRUE FALSE ON OFF"),
        "available": _any("up down drain inact"),
        "share": r"(?:NO|EXCLUSIVE|(?:FORCE|YES)(?::[0-9]+)?)",
        "preempt": rf"{_MODE}(?:,{_MODE})*|",
        "state": rf"{_STATE}[*~#!%$@^-]?(?:[+,]{_STATE}[*~#!%$@^-]?)*\+?|",
        "job state": rf"{_any(' '.join([*STATES, *(short for short, _ in STATES.values())]))}|{_any(_CUT)}\+?|",
        "reason": rf"{REASON}|",
        "status": _any(
            "CANCELED COMPLETE COMPLETED SUCCEEDED SUCCESS SUCCESSFUL FINISHED DONE OK PASS PASSED FAILED FAILURE "
            "FAIL ERROR ERRORED KILLED CANCELLED STOPPED ABORTED TERMINATED EVICTED PREEMPTED TIMEOUT TIMEDOUT "
            "RUNNING PENDING WAITING QUEUED SUBMITTED SUSPENDED UNKNOWN NONE EXITED LOST TRUE FALSE"
            " " + " ".join(STATES)
        )
        + r"|-?[0-9]{1,6}|",
        "priority": rf"-?{_AMOUNT}|{_any('lowest low normal medium default high highest urgent critical none')}|",
        "plugin": r"sched/(?:backfill|builtin|hold)|select/(?:cons_tres|cons_res|linear)|"
        r"priority/(?:basic|multifactor)|preempt/(?:none|partition_prio|qos)",
        "select": (
            _any(
                "CR_CPU CR_CPU_MEMORY CR_CORE CR_CORE_MEMORY CR_SOCKET CR_SOCKET_MEMORY CR_MEMORY CR_BOARD "
                "CR_ONE_TASK_PER_CORE CR_CORE_DEFAULT_DIST_BLOCK CR_LLN CR_PACK_NODES LL_SHARED_GRES "
                "MULTIPLE_SHARING_GRES_PJ ENFORCE_BINDING_GRES ONE_TASK_PER_SHARING_GRES OTHER_CONS_TRES OTHER_CONS_RES"
            )
        ),
        "flag": _any(
            "ACCRUE_ALWAYS CALCULATE_RUNNING DEPTH_OBLIVIOUS FAIR_TREE NO_FAIR_TREE NO_NORMAL_ALL NO_NORMAL_ASSOC "
            "NO_NORMAL_PART NO_NORMAL_QOS NO_NORMAL_TRES INCR_ONLY MAX_TRES MAX_TRES_GRES SMALL_RELATIVE_TO_TIME"
        ),
        "period": _any("NONE NOW DAILY WEEKLY MONTHLY QUARTERLY YEARLY"),
        "detection": _any("nvml nvidia nrt oneapi rsmi full off"),
        "parameter": rf"{_PARAMETER}(?:=(?:{_AMOUNT}|yes|no|min|max|avg))?",
        "resource": (
            r"(?:cpu|mem|node|billing|energy|pages|vmem|gpu|gres/(?:gpu|mps|shard)(?::[\w.+-]+)?)\s*"
            r"(?:=\s*(?:-?[0-9.]+[kmgtpe]?[nc]?)?\s*)?"
        ),
        "gpu": (
            r"(?:gres[:/])?gpu(?::[\w.+-]+)?(?::no_consume)?(?:[:=][0-9]+[kmg]?)?"
            r"(?:\((?:S|IDX|CNT)?:?[0-9,NA/-]*\))?"
        ),
        "gpus": r"gpu",
        "type": r"[\w.+-]*",
        "usage": r"[0-9.eE+-]*|inf|nan|parent",
    }.items()
}
# Kinds whose values are lists with commas; an entry of another form is left out
LISTED: Final = ("parameter", "select", "flag", "resource", "gpu")
# Names that are kept by design have no blanks and no signs of other texts
NAME: Final = re.compile(r"[\w.+*-]+(?:,\s*[\w.+*-]+)*|")
# Key -> words of Kubernetes, Kueue and Volcano. Source: apis/kueue/v1beta1 and v1beta2 of Kueue (workload_types.go,
# clusterqueue_types.go, localqueue_types.go), pkg/apis/scheduling/v1beta1/types.go of Volcano, and k8s.io/api of
# Kubernetes (core/v1 and batch/v1: conditions, phases and reasons of nodes, pods, containers and jobs)
KUBERNETES: Final = {
    key: frozenset(words.split())
    for key, words in {
        "kind": (
            "Workload ClusterQueue Cohort LocalQueue Queue Node Pod PodGroup Job List PodList NodeList JobList "
            "WorkloadList ClusterQueueList LocalQueueList CohortList PodGroupList QueueList ResourceFlavor JobSet "
            "ResourceFlavorList WorkloadPriorityClass WorkloadPriorityClassList PriorityClass PriorityClassList "
            "Topology AdmissionCheck RayJob RayCluster RayService MPIJob PyTorchJob TFJob XGBoostJob PaddleJob JAXJob "
            "TrainJob CronJob LeaderWorkerSet Deployment StatefulSet ReplicaSet DaemonSet AppWrapper"
        ),
        "type": (
            "Admitted QuotaReserved Finished Evicted Preempted Requeued PodsReady DeactivationTarget Active "
            "Deactivated PodScheduled Ready Initialized ContainersReady DisruptionTarget PodReadyToStartContainers "
            "MemoryPressure DiskPressure PIDPressure NetworkUnavailable Scheduled Unschedulable Complete Failed "
            "Suspended SuccessCriteriaMet FailureTarget Pending Running Inqueue Completed"
        ),
        "status": "True False Unknown",
        "reason": (
            "JobFinished Succeeded Failed Preempted PodsReadyTimeout PodsReady AdmissionCheck ClusterQueueStopped "
            "LocalQueueStopped NodeFailures Deactivated DeactivatedDueToAdmissionCheck InactiveWorkload Reactivated "
            "DeactivatedDueToRequeuingLimitExceeded DeactivatedDueToMaximumExecutionTimeExceeded InCohort "
            "InCohortReclamation InClusterQueue InCohortFairSharing InCohortReclaimWhileBorrowing QuotaReserved "
            "Admitted Pending NoReservation Waiting Inadmissible Evicted ClusterQueueRestarted LocalQueueRestarted "
            "BackoffFinished RequeuingLimitExceeded MaximumExecutionTimeExceeded WorkloadSliceReplaced OutOfSync "
            "AdmissionChecksRejected LimitRangeAdjusted JobNotFinished GroupSucceeded WaitForStart WaitForRecovery "
            "Started Recovered Terminating Stopped FlavorNotFound AdmissionCheckNotFound AdmissionCheckInactive "
            "MultipleMultiKueueAdmissionChecks MultiKueueAdmissionCheckAppliedPerFlavor TopologyNotFound Ready "
            "NotSupportedWithTopologyAwareScheduling ClusterQueueDoesNotExist ClusterQueueIsInactive "
            "Completed Error OOMKilled ContainerCannotRun DeadlineExceeded StartError NodeLost Unknown "
            "NodeShutdown Terminated Preempting UnexpectedAdmissionError Unschedulable NotEnoughResources "
            "NotEnoughTasks NotEnoughPodsOfTask PodDeleted BackoffLimitExceeded CompletionsReached SuccessPolicy "
            "PodFailurePolicy FailedIndexes MaxFailedIndexesExceeded SchedulingGated SchedulerError "
            "KubeletReady PodCompleted PodFailed TerminationByKubelet DeletionByTaintManager DeletionByPodGC "
            "PreemptionByScheduler EvictionByEvictionAPI Finished"
        ),
        "phase": "Pending Running Succeeded Failed Unknown Inqueue Completed",
        "withinClusterQueue": "Never LowerPriority LowerOrNewerEqualPriority",
        "reclaimWithinCohort": "Never LowerPriority Any",
        "queueingStrategy": "StrictFIFO BestEffortFIFO",
    }.items()
}


def fits(kind: str, text: str) -> bool:
    """Whether a value has the form of its kind, one of PATTERNS."""
    return PATTERNS[kind].fullmatch(text) is not None


def entries(kind: str, text: str) -> list[str]:
    """Return the entries of a list that have the form of their kind; commas in round brackets part none."""
    parts = (entry.strip() for entry in re.split(r",(?![^()]*\))", text))
    return [entry for entry in parts if PATTERNS[kind].fullmatch(entry)]
