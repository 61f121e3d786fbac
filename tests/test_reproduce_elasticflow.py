"""The card of ElasticFlow: complete labels, paired ratios, windows of a fetched job list."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ink

from gpusched_env.reproduce import load_card, play_card
from gpusched_env.reproduce.elasticflow.card import LOADS, MACHINES, OWN, RIVALS, WINDOWS, WITHOUT_LEASES, ratio


def test_a_full_card_has_every_cell_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))  # nothing was fetched
    runs = load_card("elasticflow").runs(quick=False)
    assert len({(tuple(run.labels.items()), run.seed) for run in runs}) == len(runs)
    assert len(runs) == 10 * len(LOADS) * (1 + len(RIVALS))
    file = tmp_path / "philly" / "elasticflow_103959.csv"
    file.parent.mkdir()
    file.write_text("job_id,submit_time,num_gpu,duration,ddl,model_name,batch_size\n0,0,1,60,90,bert,128\n")
    more = load_card("elasticflow").runs(quick=False)[len(runs) :]
    assert len(more) == len(MACHINES) * WINDOWS * (1 + len(WITHOUT_LEASES))
    assert more[0].problem.instance(0).workload.deadline_s.tolist() == [90.0]


def test_ratios_are_those_of_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))
    card = load_card("elasticflow")
    runs = [run for run in card.runs(quick=True) if run.labels["scheduler"] in (OWN, "edf", "edf-admission")]
    card.runs = lambda quick: runs  # type: ignore[method-assign]
    results = play_card(card, tmp_path / "out", quick=True, progress=False)[0]
    setting = results.known("setting")[0]
    own, rival = (results.values("deadlines_met", setting=setting, scheduler=name) for name in (OWN, "edf"))
    assert ratio(results, setting, "edf").mean == pytest.approx(((own / rival).prod()) ** (1 / len(own)))
    assert ratio(results, setting, "chronus") is None
    assert {finding.setting for finding in card.findings(results)} == {setting}
    assert [path.name for path in card.draw(results, tmp_path)] == ["deadlines_met.png"]
    assert ink(tmp_path / "deadlines_met.png") > 0
