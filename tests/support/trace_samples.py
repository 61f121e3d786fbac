"""A valid trace of every layout of every format, for tests of all readers. A new reader adds its samples here."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import zstandard

from gpusched_env.problem.workload import Workload

ROWS: Final = 6


def zipped(data: bytes, *names: str, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip with one entry for each name; folders end in a slash."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names or ("log.csv",):
            archive.writestr(zipfile.ZipInfo(name), b"" if name.endswith("/") else data, method)
    return stream.getvalue()


gzipped = partial(gzip.compress, mtime=0)  # parallel test workers must write equal bytes
PACK: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": gzipped,
    "zstd": zstandard.ZstdCompressor().compress,
    "zip": zipped,
}


def _text(header: str, row: str, rows: int = ROWS) -> bytes:
    """Write a number of lines; ``@`` = number of the row from 0, ``#`` = its last digit."""
    return "".join([header, *(row.replace("@", str(i)).replace("#", str(i % 10)) for i in range(rows))]).encode()


def _table(header: str, row: str) -> Callable[..., bytes]:
    return partial(_text, f"{header}\n" if header else "", f"{row}\n")


def _philly_json(rows: int = ROWS) -> bytes:
    detail = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]
    times = {"start_time": "2017-10-07 01:00:00", "end_time": "2017-10-07 01:01:00"}
    job = {"status": "Pass", "vc": "v", "user": "u", "attempts": [{**times, "detail": detail}]}
    log = [{**job, "jobid": f"j{i}", "submitted_time": f"2017-10-07 00:59:0{i % 10}"} for i in range(rows)]
    return json.dumps(log, indent=0).encode()


def _objects(
    first: list[dict[str, Any]], each: Callable[[int], list[dict[str, Any]]], listed: bool = False
) -> Callable[..., bytes]:
    """Objects of Kubernetes: JSON lines, or a List as kubectl writes it."""

    def write(rows: int = ROWS) -> bytes:
        objects = [*first, *(one for i in range(rows) for one in each(i))]
        if listed:
            return json.dumps({"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {}}, indent=1).encode()
        return "".join(json.dumps(one) + "\n" for one in objects).encode()

    return write


def _workload(i: int) -> list[dict[str, Any]]:
    day = "2025-03-03T09:"
    kinds = {"QuotaReserved": "01", "Admitted": "02", "Finished": "42"}
    times = [
        {"type": k, "status": "True", "reason": k, "lastTransitionTime": f"{day}{m}:0{i % 10}Z"}
        for k, m in kinds.items()
    ]
    usage = {
        "name": "main",
        "flavors": {"nvidia.com/gpu": "h100"},
        "resourceUsage": {"nvidia.com/gpu": "8"},
        "count": 2,
    }
    container = {"resources": {"requests": {"nvidia.com/gpu": "4", "cpu": "500m"}}}
    pods = {"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}}
    return [
        {
            "kind": "Workload",
            "metadata": {"name": f"w{i}", "namespace": "vis", "creationTimestamp": f"{day}00:0{i % 10}Z"},
            "spec": {"queueName": "q", "priority": 10, "podSets": [pods], "maximumExecutionTimeSeconds": 7200},
            "status": {"admission": {"clusterQueue": "vis", "podSetAssignments": [usage]}, "conditions": times},
        }
    ]


def _pods(i: int, group: str = "", pods: int = 2) -> list[dict[str, Any]]:
    day = "2025-03-03T09:"
    owner = [{"kind": "Job", "name": f"j{i}", "uid": f"u{i}"}]
    ended = [{"state": {"terminated": {"finishedAt": f"{day}42:0{i % 10}Z"}}}]
    return [
        {
            "kind": "Pod",
            "metadata": {
                "name": f"j{i}-{k}",
                "namespace": "vis",
                "creationTimestamp": f"{day}00:0{i % 10}Z",
                "ownerReferences": owner,
                "annotations": {"scheduling.k8s.io/group-name": f"{group}{i}"} if group else {},
            },
            "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 4}}}], "nodeName": f"g0{k}"},
            "status": {"phase": "Succeeded", "startTime": f"{day}02:0{i % 10}Z", "containerStatuses": ended},
        }
        for k in range(pods)
    ]


def _pod_group(i: int) -> list[dict[str, Any]]:
    metadata = {"name": f"pg{i}", "namespace": "vis", "creationTimestamp": f"2025-03-03T08:59:0{i % 10}Z"}
    return [{"kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 2, "queue": "nlp"}}, *_pods(i, "pg")]


def _saved(rows: int = ROWS) -> bytes:
    users = np.array([f"u{i}" for i in range(rows)])
    workload = Workload.from_columns(range(rows), [1] * rows, [60.0] * rows, attributes={"user": users})
    with tempfile.TemporaryDirectory() as folder:
        workload.save(Path(folder) / "saved.npz")
        return (Path(folder) / "saved.npz").read_bytes()


_PHILLY = (
    _table("timestamp,duration,num_gpus,gpu_time,cluster", "2017-10-09 00:00:0#,5.5,2,11.0,b"),
    _table("jobid,submitted_time,num_gpus,duration_s", "j@,2017-10-09 00:00:0#,2,5"),
)
_JOB_LIST = _table("job_id,arrival_s,service_sec,gpu_count", "w@,1@.5,20.0,8")
_MURI = _table(
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,"
    "resource_time_1,resource_time_2,priority",
    "@,8,@568,294,a2c,64,162000,16000,555,502.0,14,0.4,0",
)
_POLLUX = _table("name,time,application,num_replicas,batch_size", "bert-@,1@.5,bert,2,96")
_ACME_TIMES = "2023-05-17 11:00:00+00:00,2023-05-17 11:00:10+00:00,2023-05-17 11:01:00+00:00"

# For each layout, a function that writes a number of rows
WRITERS: Final[dict[str, tuple[Callable[..., bytes], ...]]] = {
    "acme": (
        _table(
            "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time",
            f"j@,u,1,8,8,Other,COMPLETED,{_ACME_TIMES},50,10,0",
        ),
        _table(
            "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
            "end_time,fail_time,stop_time,duration,queue,gpu_time",
            f"j@,u,1,8,8,9,100.0,Other,COMPLETED,{_ACME_TIMES},,,60,10,0",
        ),
        _table("job_id,gpu_num,submit_time,duration,queue", "j@,8,2023-05-17 11:00:0#+00:00,60.0,10.0"),
    ),
    "bsbf": (_MURI,),
    "chronus": (
        _table(
            "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,"
            "expect_value_list,best_effort,job_type",
            "@,v,1,1@,5,alexnet,96,5,159-189,10-8,0,soft",
        ),
    ),
    "csv": (
        _table("Job ID,user,submit_time,num_gpus,run_time_min,note", "j@,u,2024-03-01T00:00:0#Z,2,5.5,x"),
        _table("submitted (s),start_time,end_time,gpus,estimate_h", "1@,1@.5,17@,4,2"),
    ),
    "dally": (
        _table(
            "job_id,arrival_time,max_parallelism,model,dataset,batchsize,amp,duration,total_iterations,"
            "time_per_iteration,submit_time,job_group_id",
            "@,1@,4,VGG,CIFAR-10,32,0,8000,4000,2.0,2020-03-26 13:42:30,8",
        ),
    ),
    "elasticflow": (
        _table(
            "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,duration,iteration",
            "@,1@,5,vgg16,110,256,1,90,90,5",
        ),
    ),
    "file": (_saved,),
    "gavel": (
        _table("", "ResNet-18 (batch size 32)\tpython3 main.py\t--num_steps\t1\t5000\t1@\t1"),
        _table("", "LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t134\t2\t1\t-1.000000\t1@.5"),
    ),
    "helios": (
        _table(
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
            "7@,u,v,8,64,1,COMPLETED,2020-04-01 00:01:0#,x,y,30,5",
        ),
        _JOB_LIST,
    ),
    "hydra": (_table(",job_name,norm_job_submit_time,ddl,A100,V100,GTX2080Ti", "@,h@,0,inf,1020.0,1540.0,2595.0"),),
    "hyperdrive": (
        _table(
            "experiment-id,job-id,start-time,run-time,num-gpus",
            "1781, application_@, 2018-06-16 04:51:4#, 7953.0, 1",
        ),
        _table(",experiment_id,start_time,running_time,num_gpus", "207@,1665,1@,143,1"),
    ),
    "kubernetes": (_objects([], _pods), _objects([], _pods, listed=True)),
    "kueue": (_objects([], _workload), _objects([], _workload, listed=True)),
    "muri": (_MURI,),
    "openb": (
        _table(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
            "scheduled_time",
            "p@,1,1,1,460,V100M16|V100M32,LS,Running,@,11@,10@",
        ),
    ),
    "pai": (_JOB_LIST,),
    "pai-tables": (),  # a folder: tests/traces/test_pai_tables.py
    "philly": (*_PHILLY, _philly_json),
    "philly-csv": _PHILLY,
    "philly-json": (_philly_json,),
    "pollux": (_POLLUX,),
    "pollux-sharing": (_POLLUX,),
    "shockwave": (
        _table(
            "",
            'LM (batch size 10)\tpython3 main.py --data "%s/wikitext, all"\tlm\t--steps\t1\t134\t2\tgns\t1\t-1\t9\t@',
        ),
    ),
    "sia": (_POLLUX,),
    "slurm": (
        _table(
            "JobID|JobIDRaw|User|Account|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|State|TimelimitRaw|ReqTRES|"
            "AllocTRES|NodeList|Restarts",
            "7@|7@|ann|vis|gpu|low|2025-03-03T09:00:0#|2025-03-03T09:00:0#|2025-03-03T09:05:00|2025-03-03T11:05:00|7200|"
            "COMPLETED|240|cpu=32,gres/gpu=4|billing=32,cpu=32,gres/gpu:h100=4,gres/gpu=4,node=1|g01|0",
        ),
        _table("jobid|submit|start|end|state|reqtres|", "7@|174000000#|1740000010|1740000070|CD|gres/gpu:a100=2|"),
    ),
    "swf": (_table("; UnixStartTime: 0", "@ 10@ 0 50.5 4 -1 -1 8 60 -1 1 7 -1 -1 2 -1 -1 -1"),),
    "tiresias": (
        _table(
            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval",
            "@,2,1@5,606,vgg19,164,30",
        ),
    ),
    "volcano": (_objects([], _pod_group), _objects([], _pod_group, listed=True)),
}
SAMPLES: Final = {name: tuple(write() for write in writers) for name, writers in WRITERS.items()}
LAYOUTS: Final = [(name, number) for name, samples in SAMPLES.items() for number in range(len(samples))]
