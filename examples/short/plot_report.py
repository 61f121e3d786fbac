"""
Write a report
==============

A report is one HTML file with the schedules, the queue and the metrics of several runs. It loads nothing from the
internet.
"""

import tempfile
from pathlib import Path

from gpusched_env import get_scenario
from gpusched_env.evaluation import evaluate
from gpusched_env.reports import write_report

scenario = get_scenario("tiny-v1")
results = evaluate(scenario, ["fifo", "srtf"], [200_000], keep_logs=True, progress=False)
page = Path(tempfile.mkdtemp()) / "compared.html"
write_report(scenario.instance(200_000), results, page, title="FIFO and SRTF")
print(f"{page.name}: {page.stat().st_size:,} bytes")
