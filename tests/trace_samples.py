"""Small valid traces of every layout of every format, for tests over all readers. A new reader adds its own here."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.workload import Workload

ROWS: Final = 6


def _rows(row: str, header: str = "") -> bytes:
    """Write ROWS lines; ``@`` stands for the row number from 0."""
    return (header + "".join(f"{row}\n".replace("@", str(i)) for i in range(ROWS))).encode()


def _philly_json() -> bytes:
    detail = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]
    times = {"start_time": "2017-10-07 01:00:00", "end_time": "2017-10-07 01:01:00"}
    job = {"status": "Pass", "vc": "v", "user": "u", "attempts": [{**times, "detail": detail}]}
    log = [{**job, "jobid": f"j{i}", "submitted_time": f"2017-10-07 00:59:0{i}"} for i in range(ROWS)]
    return json.dumps(log).encode()


def _saved() -> bytes:
    users = np.array([f"u{i}" for i in range(ROWS)])
    workload = Workload.from_columns(range(ROWS), [1] * ROWS, [60.0] * ROWS, attributes={"user": users})
    with tempfile.TemporaryDirectory() as folder:
        workload.save(Path(folder) / "saved.npz")
        return (Path(folder) / "saved.npz").read_bytes()


_PHILLY = (
    _rows("2017-10-09 00:00:0@,5.5,2,11.0,b", "timestamp,duration,num_gpus,gpu_time,cluster\n"),
    _rows("j@,2017-10-09 00:00:0@,2,5", "jobid,submitted_time,num_gpus,duration_s\n"),
)
_JOB_LIST = _rows("w#@,1@.5,20.0,8", "job_id,arrival_s,service_sec,gpu_count\n")
_MURI = _rows(
    "@,8,@568,294,a2c,64,162000,16000,555,502.0,14,0.4,0",
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,"
    "resource_time_1,resource_time_2,priority\n",
)
_POLLUX = _rows("bert-@,1@.5,bert,2,96", "name,time,application,num_replicas,batch_size\n")
_ACME_TIMES = "2023-05-17 11:00:00+00:00,2023-05-17 11:00:10+00:00,2023-05-17 11:01:00+00:00"

SAMPLES: Final[dict[str, tuple[bytes, ...]]] = {
    "acme": (
        _rows(
            f"j@,u,1,8,8,Other,COMPLETED,{_ACME_TIMES},50,10,0",
            "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n",
        ),
        _rows(
            f"j@,u,1,8,8,9,100.0,Other,COMPLETED,{_ACME_TIMES},,,60,10,0",
            "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
            "end_time,fail_time,stop_time,duration,queue,gpu_time\n",
        ),
        _rows("j@,8,2023-05-17 11:00:0@+00:00,60.0,10.0", "job_id,gpu_num,submit_time,duration,queue\n"),
    ),
    "bsbf": (_MURI,),
    "chronus": (
        _rows(
            "@,v,1,1@,5,alexnet,96,5,159-189,10-8,0,soft",
            "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,"
            "expect_value_list,best_effort,job_type\n",
        ),
    ),
    "elasticflow": (
        _rows(
            "@,1@,5,vgg16,110,256,1,90,90,5",
            "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,duration,iteration\n",
        ),
    ),
    "file": (_saved(),),
    "gavel": (
        _rows("LM (batch size 10)\tpython3 main.py\t--steps\t1\t134\t@.5\t2"),
        _rows("LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t134\t2\t1.0\t-1.000000\t@"),
    ),
    "helios": (
        _rows(
            "7@,u,v,8,64,1,COMPLETED,2020-04-01 00:01:0@,x,y,30,5",
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n",
        ),
        _JOB_LIST,
    ),
    "muri": (_MURI,),
    "openb": (
        _rows(
            "p@,1,1,1,460,V100M16|V100M32,LS,Running,@,11@,10@",
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
            "scheduled_time\n",
        ),
    ),
    "pai": (_JOB_LIST,),
    "philly": (*_PHILLY, _philly_json()),
    "philly-csv": _PHILLY,
    "philly-json": (_philly_json(),),
    "pollux": (_POLLUX,),
    "shockwave": (
        _rows(
            'LM (batch size 10)\tpython3 main.py --data "%s/wikitext2, all"\tlm\t--steps\t1\t134\t2\tgns\t1\t-1\t9\t@'
        ),
    ),
    "sia": (_POLLUX,),
    "swf": (_rows("@ 10@ 0 50.5 4 -1 -1 8 60 -1 1 7 -1 -1 2 -1 -1 -1", "; UnixStartTime: 0\n"),),
    "tiresias": (
        _rows("@,2,1@5,606,vgg19,164,30", "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"),
    ),
}
LAYOUTS: Final = [(name, number) for name, samples in SAMPLES.items() for number in range(len(samples))]
