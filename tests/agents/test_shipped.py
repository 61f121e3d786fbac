"""The agents of the package: cards, checkpoints, and how they play."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers import instance_i
from typer.testing import CliRunner

from gpusched_env.agents import cards
from gpusched_env.agents.cards import NETWORK_KIND, Card, read_card, shipped_agents
from gpusched_env.agents.checkpoints import LARGEST_BYTES
from gpusched_env.baselines import make_scheduler
from gpusched_env.cli import app
from gpusched_env.cli.parsing import chosen_schedulers
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.errors import SchedulerError
from gpusched_env.metrics import COLUMN_OF
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate

NAME = "philly-64"


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of one shipped agent that a test may damage."""
    for suffix in (".json", ".npz"):
        (tmp_path / f"{NAME}{suffix}").write_bytes((cards.shipped_folder() / f"{NAME}{suffix}").read_bytes())
    monkeypatch.setattr(cards, "shipped_folder", lambda: tmp_path)
    return tmp_path


def test_every_checkpoint_has_a_card_and_every_card_a_checkpoint() -> None:
    stems = {suffix: {path.stem for path in cards.shipped_folder().glob(f"*{suffix}")} for suffix in (".json", ".npz")}
    assert stems[".json"] == stems[".npz"] == set(shipped_agents()) >= {NAME}


@pytest.mark.parametrize("name", shipped_agents())
def test_a_card_tells_the_truth(name: str) -> None:
    card = read_card(name)
    assert card.checked_file().stat().st_size <= LARGEST_BYTES
    assert card.environment in ENVIRONMENTS
    scenario = get_scenario(card.scenario)
    uses = ("report",) if card.data else ("train", "validation", "report")
    assert card.seeds == {use: getattr(scenario.seeds, use) for use in uses}
    agent = make_scheduler(f"learned:{name}")
    assert agent.clairvoyant is card.clairvoyant
    assert agent.info.parameters["agent"] == name  # and no path of this machine
    assert all(low <= mean <= high for mean, low, high in card.ratios.values())
    more_is_better = COLUMN_OF[card.metric].better == "max"
    beats = [low > 1.0 if more_is_better else high < 1.0 for _, low, high in card.ratios.values()]
    assert any(beats), "an agent that beats nothing is not shipped"
    for rival in card.ratios:
        make_scheduler(rival)


def parsed(command: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings of the training of a command ``python train.py ...``."""
    found = []
    monkeypatch.setattr("gpusched_env.agents.whole_run.train_and_compare", lambda *settings: found.append(settings))
    result = CliRunner().invoke(app, ["train", *shlex.split(command)[2:]])
    assert result.exit_code == 0, result.output
    [(_, training)] = found
    return training


@pytest.mark.parametrize("name", [name for name in shipped_agents() if read_card(name).kind == NETWORK_KIND])
def test_the_command_of_a_network_has_the_settings_of_its_card(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = pytest.importorskip("gpusched_env.agents.recipes", exc_type=ImportError).RECIPES
    card = read_card(name)
    [command] = card.made_by
    written = msgspec.json.encode(dataclasses.asdict(parsed(command, monkeypatch)))
    # newer than some agents, with the values that they had without them
    later = {"sizes": [], "tenant_window": 0, "limits": False, "greedy": False, "more_actions": [], "predictor": ""}
    gone = ("baseline", "gae_lambda")  # of a value network, which none of them has
    assert msgspec.json.decode(written) == later | {k: v for k, v in card.training.items() if k not in gone}
    if name in recipes:
        recipe = recipes[name]
        assert command == f"python train.py --recipe {name}"
        assert (recipe.environment, list(recipe.rivals)) == (card.environment, list(card.ratios))
        assert (recipe.summary, recipe.intended_use, recipe.limits) == (card.summary, card.intended_use, card.limits)


def test_the_agent_of_every_recipe_ships() -> None:
    recipes = pytest.importorskip("gpusched_env.agents.recipes", exc_type=ImportError).RECIPES
    assert recipes.keys() <= set(shipped_agents())


def test_learned_without_a_name_is_the_general_agent() -> None:
    instance = get_scenario("tiny-v1").instance(0)
    logs = {simulate(instance, make_scheduler(spec)).digest() for spec in ("learned", "learned:general")}
    assert len(logs) == 1
    assert make_scheduler("learned").clairvoyant is False


def test_an_agent_plays_by_name_as_by_path() -> None:
    pytest.importorskip("torch")
    card = cards.shipped_folder() / f"{NAME}.json"
    by_name = simulate(get_scenario("tiny-v1").instance(0), make_scheduler(f"learned:{NAME},queue_window=3"))
    own = make_scheduler("learned", path=str(card.with_suffix(".npz")), config=str(card), queue_window=3)
    assert by_name.digest() == simulate(get_scenario("tiny-v1").instance(0), own).digest()


def test_a_file_is_played_by_the_scheduler_that_reads_it() -> None:
    instance = get_scenario("tiny-v1").instance(0)
    played = {name: cards.shipped_folder() / f"{name}.npz" for name in ("general", "heterogeneous")}
    for name, path in played.items():
        by_path, by_name = make_scheduler(f"learned:path={path}"), make_scheduler(f"learned:{name}")
        assert type(by_path) is type(by_name)
        assert make_scheduler("learned", path=str(path)) == by_path
    logs = {
        simulate(instance, make_scheduler(f"learned:{text}")).digest() for text in ("", f"path={played['general']}")
    }
    assert len(logs) == 1


def test_both_forms_of_parameters_mean_the_same() -> None:
    one, other, third = (
        make_scheduler(f"learned:{NAME}{text}") for text in (",greedy=on,seed=3", ":greedy=on,seed=3", "")
    )
    assert one == other != third
    assert chosen_schedulers([f"fifo,learned:{NAME},greedy=on,srtf"]) == ["fifo", f"learned:{NAME}:greedy=on", "srtf"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("learned:phily-64", r"unknown agent 'phily-64': did you mean 'philly-64'.*learned:path=FILE"),
        (f"learned:{NAME},greed=on", r"unknown parameter 'greed': did you mean 'greedy'"),
        (f"learned:{NAME},greedy", r"'greedy' is not of the form parameter=value"),
        (f"learned:{NAME},initial=on", r"leave out path, config, initial and cloned"),
        (f"learned:path=model.npz,agent={NAME}", r"leave out path"),
        ("learned:agent=none", r"unknown agent 'none'"),
    ],
)
def test_mistakes_are_named(spec: str, message: str) -> None:
    with pytest.raises(SchedulerError, match=message):
        make_scheduler(spec)


def test_a_damaged_checkpoint_is_refused_by_its_name(own_folder: Path) -> None:
    file = own_folder / f"{NAME}.npz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(SchedulerError, match=rf"{NAME}\.npz: its SHA-256 is not that of its card"):
        simulate(instance_i(), make_scheduler(f"learned:{NAME}"))
    for command in (["list"], ["show", NAME]):
        refused = CliRunner().invoke(app, ["agents", *command])
        assert refused.exit_code == 2
        assert "its SHA-256 is not that of its card" in refused.stderr
    file.unlink()
    with pytest.raises(SchedulerError, match=rf"{NAME}\.npz: cannot be read"):
        simulate(instance_i(), make_scheduler(f"learned:{NAME}"))


@pytest.mark.parametrize("text", ["", "{}", "[", '{"name": 3}'])
def test_a_damaged_card_is_refused_by_its_name(own_folder: Path, text: str) -> None:
    (own_folder / f"{NAME}.json").write_text(text)
    with pytest.raises(SchedulerError, match=rf"{NAME}\.json: not the card of an agent"):
        make_scheduler(f"learned:{NAME}")


def test_a_card_of_another_agent_or_kind_is_refused(own_folder: Path) -> None:
    card = read_card(NAME)
    for changed in ({"name": "other"}, {"kind": "oracle"}):
        other = msgspec.json.encode(msgspec.structs.replace(card, **changed))
        (own_folder / f"{NAME}.json").write_bytes(other)
        with pytest.raises(SchedulerError, match=rf"{NAME}\.json: the card is of"):
            read_card(NAME)


def test_describe_prints_the_card() -> None:
    shown = CliRunner().invoke(app, ["agents", "show", NAME])
    assert shown.exit_code == 0
    card = read_card(NAME)
    assert isinstance(card, Card)
    for text in (card.summary, card.sha256, card.made_by[0], card.limits, *card.ratios):
        assert text in shown.stdout
    assert CliRunner().invoke(app, ["agents", "show", "none"]).exit_code == 2
    listed = CliRunner().invoke(app, ["agents", "list"]).stdout
    assert all(name in listed for name in shipped_agents())


def test_the_list_of_agents_imports_no_torch() -> None:
    code = "import sys; from gpusched_env.cli import app; app(['agents', 'list'], standalone_mode=False); "
    code += "assert not {'torch', 'numba', 'scipy'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_measuring_pairs_the_agent_with_each_rival() -> None:
    """The ratio of A to B is the inverse of that of B to A, and its interval as well."""
    measuring = pytest.importorskip("gpusched_env.agents.measuring")
    [one] = measuring.measured_ratios("srtf", ["fifo"], "tiny-v1", "mean_jct_s", 3).values()
    [other] = measuring.measured_ratios("fifo", ["srtf"], "tiny-v1", "mean_jct_s", 3).values()
    assert one[0] < 1.0
    assert one == pytest.approx((1 / other[0], 1 / other[2], 1 / other[1]))
    both = measuring.measured_ratios("srtf", ["fifo", measuring.BOUND], "tiny-v1", "mean_jct_s", 3)
    assert both["fifo"] == one
    assert both[measuring.BOUND][0] >= 1.0
    assert list(measuring.measured_ratios("srtf", ["fifo", measuring.BOUND], "tiny-v1", "p99_jct_s", 3)) == ["fifo"]
