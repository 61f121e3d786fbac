"""``gpusched models``: the plans, their reasons, and a user's own models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gpusched_env.cli import app
from gpusched_env.errors import WorkloadError
from gpusched_env.traces.profile_tables.llm import find_plans, known_models, make_run


def gpusched(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["models", *map(str, arguments)])


def tables(*arguments: str | Path) -> list[dict[str, Any]]:
    done = gpusched(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["tables"]


def test_list_and_show() -> None:
    [listed] = tables("list")
    assert [row["model"] for row in listed["rows"]] == list(known_models())
    [measured] = tables("show", "llama3-70b")  # by its alias
    assert {row["model"] for row in measured["rows"]} == {"llama3.1-70b"}
    assert "no measured iterations" in gpusched("show", "mixtral-8x7b").stdout


def test_plan() -> None:
    fit, others = tables("plan", "llama3.1-70b", "--gpus", 64, "--type", "H100", "--batch", 128, "--top", 3)
    run = make_run("llama3.1-70b", "H100", 128)
    found = find_plans(run, 64)
    assert [row["seconds"] for row in fit["rows"]] == [option.seconds for option in found[:3]]
    assert fit["rows"][0]["tokens_per_s_gpu"] == 128 * 8192 / found[0].seconds / 64
    assert all(row["why_not"] and "seconds" not in row for row in others["rows"])
    fitting = sum(not option.why_not for option in found)
    assert f": {fitting} plans fit, {len(found) - fitting} do not" in fit["title"]


def test_plan_of_a_model_of_a_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("model,layers,hidden,heads,kv_heads,head_dim,ffn,vocab\nmine,32,4096,32,8,128,14336,128256\n")
    told = gpusched("plan", "mine", "--gpus", 8, "--type", "H100", "--models", file, "--kind", "lora")
    assert told.exit_code == 0
    assert "± 15 %" in told.stdout


@pytest.mark.parametrize(
    ("model", "gpu_type", "message"),
    [("llama3.1-7b", "H100", "did you mean"), ("llama3.1-8b", "T4", "unknown GPU type 'T4': known: A100-80"),
     ("kimi-k2", "H100", "no row of pretrain in BF16")],
)  # fmt: skip
def test_errors(model: str, gpu_type: str, message: str) -> None:
    done = gpusched("plan", model, "--gpus", 64, "--type", gpu_type)
    assert isinstance(done.exception, WorkloadError) or done.exit_code
    assert message in str(done.exception) + done.output
