"""Entries of the package are complete, small and true: the schedulers are played on one seed."""

import gzip
from pathlib import Path

import pytest
from published import TRACES

from gpusched_env.agents.cards import NETWORK_KIND, read_card, shipped_agents
from gpusched_env.baselines import BASELINES
from gpusched_env.event_log import REFUSE
from gpusched_env.leaderboard import TRACKS, Entry, get_track, verify
from gpusched_env.leaderboard.baseline_entries import FOLDER, shipped_entries
from gpusched_env.leaderboard.replaying import Budget
from gpusched_env.leaderboard.scoring import worse
from gpusched_env.leaderboard.standings import shipped_standings
from gpusched_env.leaderboard.verifying import check_claims, verify_run
from tools.leaderboard.baselines import fitting
from tools.leaderboard.left_out import LEFT_OUT, absent, agents_of

ENTRIES = shipped_entries()
WHOLE = (
    ("general-v1", "fifo"),
    ("general-v1", "dally"),
    ("general-v2", "dally"),
    ("ring-all-reduce-v0", "tiresias-g"),
    ("sharing-v1", "sjf-bsbf"),
    ("slo-v0", "edf-admission"),
)
# A seed of these takes 3 to 40 s. `python -m tools site` plays them, as does `python -m tools entries`.
SLOW = {
    f"{track}-{spec}"
    for track, specs in {
        "heterogeneous-v1": "gavel gavel-ftf gavel-las",
        "network-v1": "bco-ff bco-ls sjf-bco",
        "elastic-v0": "pollux",
        "slo-v0": "pollux",
        "tenants-v0": "kai slurm themis",
    }.items()
    for spec in specs.split()
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The log of philly-log-v0 if the published traces are present; None = use the data folder."""
    packed = TRACES / "muri" / "trace2.csv.gz"
    if not packed.is_file():
        return None
    plain = tmp_path_factory.mktemp("logs") / "trace2.csv"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    return plain


def name_of(entry: Entry) -> str:
    return f"{entry.track}-{entry.player.spec}"


def test_shipped_entries_are_small():
    files = [path for path in FOLDER.iterdir() if path.is_file()]
    assert sorted(path.name for path in files) == sorted(f"{track.name}.jsonl" for track in TRACKS)
    size = sum(path.stat().st_size for path in files)
    assert size < 200 * sum(len(entry.runs) for entry in ENTRIES)
    assert size < 500_000


@pytest.mark.parametrize("track", TRACKS, ids=lambda track: track.name)
def test_every_scheduler_that_fits_a_track_has_an_entry_or_is_listed_as_absent(track, log):
    if track.absence(log):
        pytest.skip(track.absence(log))
    problem = track.problem(log)
    there = [entry.player.spec for entry in shipped_entries(track.name)]
    for entry in shipped_entries(track.name):
        check_claims(entry, problem)
    missing = {name for names in absent(problem).values() for name in names}
    assert sorted(there) == sorted(set(fitting(problem)) - missing)
    registered = {name for name, baseline in BASELINES.items() if not baseline.variant_of}
    assert set(there) | missing == registered | set(agents_of(problem)) | set(track.also)


def test_agents_have_entries_on_the_tracks_of_their_scenarios_and_say_on_what_they_learned():
    agents = {track.name: agents_of(track.problem()) for track in TRACKS if track.windows is None}
    assert {name for cards in agents.values() for name in cards} == {
        "learned:philly-64", "learned:ring-all-reduce", "learned:heterogeneous", "learned:sharing",
        "learned:sharing-partners", "learned:elastic", "learned:sharing-packing", "learned:ring-all-reduce-orders",
        "learned:deadlines", "learned:steady-64",
    }  # fmt: skip
    for track, cards in agents.items():
        for name, card in cards.items():
            if (track, name) in LEFT_OUT:
                continue
            [entry] = [entry for entry in shipped_entries(track) if entry.player.spec == name]
            assert entry.player.clairvoyant is card.clairvoyant
            assert entry.about.training_seeds == [card.seeds["train"], card.seeds["validation"]]


def test_uniform_play_is_no_trained_agent_and_is_worse():
    shown = {one.entry.player.spec: one for one in shipped_standings(get_track("general-v2"))}
    agent, uniform = shown["learned:steady-64"], shown["learned:steady-64,untrained=on"]
    assert agent.badges == ["baseline", "learned"]
    assert uniform.badges == ["baseline"]
    assert uniform.rank > shown["random"].rank > agent.rank > shown["dally"].rank == 1
    assert worse(shown["fifo"].runs, uniform.runs, "mean_jct_s")


def test_omitted_schedulers_and_tracks_are_registered():
    assert {track for track, _ in LEFT_OUT} <= {track.name for track in TRACKS}
    assert {name for _, name in LEFT_OUT} <= set(BASELINES) | {f"learned:{name}" for name in shipped_agents()}


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if name_of(entry) not in SLOW], ids=name_of)
def test_shipped_entries_verify(entry, log):
    name = entry.player.spec.removeprefix("learned:")
    if name in shipped_agents() and read_card(name).kind == NETWORK_KIND:
        pytest.importorskip("torch")
    track = get_track(entry.track)
    if track.windows is not None and track.absence(log):
        pytest.skip(track.absence(log))
    problem = track.problem(log)
    run = entry.runs[ENTRIES.index(entry) % len(entry.runs)]
    found = verify_run(entry, run, problem, Budget(seconds=3600.0), keep_log=True)
    assert found.log is not None
    assert found.log.digest() == run.digest
    refused = (found.log.events["kind"] == REFUSE).sum()
    assert found.metrics["finished"] + refused == found.metrics["jobs"] > 0


@pytest.mark.parametrize(("track", "spec"), WHOLE)
def test_all_seeds_of_some_entries_verify(track, spec):
    [entry] = [entry for entry in shipped_entries(track) if entry.player.spec == spec]
    assert len(verify(entry)) == get_track(track).reports


def test_slow_entries_are_shipped():
    assert set(map(name_of, ENTRIES)) >= SLOW
