"""Entries: records replay to the same log, and false entries are refused."""

import contextlib
import hashlib
import itertools
import json
import lzma
import math
import os
import tracemalloc
from pathlib import Path

import hypothesis
import msgspec
import numpy as np
import pytest
from entry_case import ABOUT, TINY, changed, with_run
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import EntryError, MismatchError
from gpusched_env.evaluation import evaluate
from gpusched_env.leaderboard import (
    Entry,
    Track,
    columns,
    compared,
    entry_files,
    make_entry,
    parse_entry,
    read_entry,
    record,
    replay,
    score,
    unpack,
    verify,
    write_entry,
)
from gpusched_env.leaderboard.entry_files import MAX_FILE_BYTES, MAX_TEXT_BYTES, unpack_text
from gpusched_env.leaderboard.packing import pack_entry
from gpusched_env.leaderboard.replaying import Budget
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import Lease, Scheduler, Start, Wait, simulate

HIDDEN = "\u200b\u200f\u061c\ufeff\u202e\u00a0\u2800\u3164\U000e0041"  # invisible characters
DOCS = Path(__file__).parents[2] / "docs" / "leaderboard.md"
FEW = hypothesis.settings(max_examples=40, derandomize=True)


@pytest.fixture(scope="module")
def entries() -> dict[str, Entry]:
    specs = ("fifo", "srtf", "themis-lite", "delay-zaharia")
    return {spec: make_entry(TINY, spec, ABOUT, progress=False) for spec in specs}


def check(entry: Entry, seconds: float = math.inf) -> None:
    verify(parse_entry(entry.sealed().text()), track=TINY, seconds=seconds)


# --- recording


@pytest.mark.parametrize(
    ("scenario", "spec"),
    [
        ("tiny-v1", "srtf"),
        ("tiny-v1", "themis-lite"),
        ("tiny-v1", "dally"),  # has a compiled player
        ("tiny-v1", "random"),
        ("tiny-v1", "fifo:placement=random"),
        ("rar-160-v0", "sjf-bco"),
        ("hadare-lab-v0", "hadare"),  # copies of a gang
        ("dally-authors-v1", "tiresias"),
    ],
)
def test_the_decisions_alone_give_the_same_event_log(scenario, spec):
    instance = get_scenario(scenario).instance(200_003)
    direct = simulate(instance, make_scheduler(spec), seed=200_003)
    log, decisions = record(instance, make_scheduler(spec), 200_003)
    assert log.digest() == direct.digest()
    assert replay(instance, 200_003, decisions).digest() == direct.digest()


class Together(Scheduler):
    """Start every job on the first free seats."""

    def decide(self, view):
        for job in view.waiting.tolist():
            yield Start(job, "share-first-fit")


def test_shared_gpus_are_recorded():
    tiny = get_scenario("tiny-v1").instance(200_000)
    instance = Instance(tiny.cluster, tiny.workload, tiny.network, tiny.semantics, Sharing(limit=2, interference=1.5))
    log, decisions = record(instance, Together())
    table = unpack(decisions)
    starts = [decision for decision in table.decisions() if isinstance(decision, Start)]
    assert any(start.share for start in starts)
    assert not all(start.share for start in starts)
    assert all(start.sub_steps == 1 for start in starts)
    assert replay(instance, 0, decisions).digest() == log.digest() == simulate(instance, Together()).digest()
    none_shared = msgspec.structs.replace(decisions, shares=[])
    with pytest.raises(EntryError, match=r"is refused|is not in canonical form"):
        replay(instance, 0, none_shared)


class Waiting(Scheduler):
    """Useful and useless waits, leases and starts."""

    def decide(self, view):
        yield Wait(view.now_s + 50.0)
        yield Wait(view.now_s + 7.0)
        for job in view.waiting.tolist():
            yield Start(job)
        for job in view.running.tolist():
            yield Lease(job, view.now_s + 100.0)
            yield Lease(job, view.now_s - 100.0)
        yield Start(0)


def test_only_decisions_that_had_an_effect_are_kept():
    instance = get_scenario("tiny-v1").instance(200_001)
    log, decisions = record(instance, Waiting())
    table = unpack(decisions)
    assert set(table.kinds) == {"S", "W", "L"}
    waits = np.array([kind == "W" for kind in table.kinds])
    assert (np.diff(table.points[waits]) >= 1).all()  # at most one of the three at a decision point
    assert replay(instance, 0, decisions).digest() == log.digest()


def test_an_entry_has_the_numbers_of_an_evaluation_and_of_any_number_of_workers(entries):
    results = evaluate("tiny-v1", ["srtf"], range(200_000, 200_003), progress=False)
    for run, result in zip(entries["srtf"].runs, results, strict=True):
        assert run.digest == result.digest
        assert run.bounds == result.bounds
        assert {name: math.nan if value is None else value for name, value in run.metrics.items()} == pytest.approx(
            result.metrics, rel=0, abs=0, nan_ok=True
        )
    assert make_entry(TINY, "srtf", ABOUT, workers=2, progress=False) == entries["srtf"]


def test_a_scheduler_that_changes_the_simulation_itself_is_refused():
    class Meddler(Scheduler):
        def decide(self, view):
            for job in view.waiting.tolist():
                view.simulation.start(job, 0)
            return []

    with pytest.raises(EntryError, match="by nothing else"):
        make_entry(TINY, Meddler(), ABOUT, progress=False)


# --- files


def test_files_round_trip(entries, tmp_path):
    for name, entry in entries.items():
        path = tmp_path / f"{name}.entry.xz"
        write_entry(entry, path)
        again = path.read_bytes()
        assert read_entry(path) == entry
        assert len(verify(read_entry(path), track=TINY)) == 3
        write_entry(read_entry(path), path)
        assert path.read_bytes() == again
    assert len(list(tmp_path.iterdir())) == len(entries)


@FEW
@hypothesis.given(at=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_changed_byte_of_the_text_is_detected(entries, at, flip):
    text = bytearray(entries["srtf"].text())
    text[int(at * len(text))] ^= flip
    with pytest.raises(EntryError):
        parse_entry(bytes(text))


@FEW
@hypothesis.given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data):
    for text in (data, lzma.compress(data)):
        with pytest.raises(EntryError):
            parse_entry(unpack_text(text))


def test_sizes_are_bounded(entries, tmp_path):
    whole = pack_entry(entries["fifo"])
    zeros = lzma.compress(bytes(MAX_TEXT_BYTES + 1))
    assert len(zeros) < 10_000
    bad = {
        "cut": whole[:-5],
        "longer": whole + b"\0",
        "two": whole + whole,
        "bomb": zeros,
        "large": bytes(MAX_FILE_BYTES + 1),
        "empty": b"",
    }
    for name, packed in bad.items():
        path = tmp_path / f"{name}.entry.xz"
        path.write_bytes(packed)
        with pytest.raises(EntryError, match=str(path)):
            read_entry(path)
    long = entries["fifo"].text().replace(b'"points":[', b'"points":[' + b"0," * 2**22, 1)
    with pytest.raises(EntryError, match=r"run 0: points has 4,194,\d{3} values for \d+ by kinds"):
        parse_entry(long)
    for path in (tmp_path, tmp_path / "absent.entry.xz", Path("a\0b")):
        with pytest.raises(EntryError, match="cannot be read"):
            read_entry(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"format":"gpusched-entry-1"', '"format":"gpusched-entry-2"'),
        ('"format":"gpusched-entry-1"', '"format":"gpusched-entry-1","format":"gpusched-entry-1"'),
        ('"authors":"A"', '"authors":"A","autors":"B"'),
        ('"authors":"A",', ""),
        ('"authors":"A"', '"authors":7'),
        ('"authors":"A"', '"authors": "A"'),
        ('"authors":"A"', '"authors":"\\u0041"'),
        *(('"authors":"A"', f'"authors":"A{hidden}"') for hidden in HIDDEN),
        ('"link":""', '"link":"javascript:alert(1)"'),
        ('"clairvoyant":false', '"clairvoyant":0'),
        ('"jobs":12.0', '"jobs":12'),
        ('"jobs":12.0', '"jobs":NaN'),
        ('"jobs":12.0', '"jobs":1e999'),
        ('"seed":200000', '"seed":-1'),
        ('"seed":200000', '"seed":200000.0'),
        ('"points":[0', '"points":[-1'),
        ('"points":[0', '"points":[1099511627777'),
        ('"shares":[]', '"shares":[2]'),
        ('"until_s":[', '"until_s":["'),
        ('"training_seeds":[]', f'"training_seeds":[{"[0,1]," * 100}[0,1]]'),
        ('"parameters":{', f'"parameters":{{"a":"{1001 * "a"}",'),
        ('"parameters":{', f'"parameters":{{"a":[{"0," * 1000}0],'),
        ('{"format"', '[' * 100_000 + '{"format"'),
    ],
)  # fmt: skip
def test_the_schema_is_strict(entries, old, new):
    text = entries["fifo"].text().decode()
    assert old in text
    bad = text.replace(old, new, 1)
    sealed = bad.replace(entries["fifo"].sha256, hashlib.sha256(bad.encode()).hexdigest())
    for attempt in (bad, sealed):
        with pytest.raises(EntryError):
            parse_entry(attempt.encode())


# --- claims


def test_claims_are_recomputed(entries):
    entry = entries["srtf"]
    run = entry.runs[1]
    wrong = hashlib.sha256(b"another").hexdigest()
    up = np.nextafter(run.metrics["mean_jct_s"], math.inf).item()
    cases = {
        "seed 200001: metrics.mean_jct_s: the entry says": with_run(entry, 1, metrics=run.metrics | {"mean_jct_s": up}),
        "seed 200001: metrics.rho_max: the entry says None": with_run(
            entry, 1, metrics=run.metrics | {"rho_max": None}
        ),
        "seed 200001: bounds.makespan_s": with_run(entry, 1, bounds=run.bounds | {"makespan_s": 1.0}),
        "seed 200001: digest": with_run(entry, 1, digest=wrong),
        "seed 200001: workload": with_run(entry, 1, workload=wrong),
        "seed 200001: instance": with_run(entry, 1, instance=wrong),
        "seed 200001, metrics: the names": with_run(entry, 1, metrics=run.metrics | {"better_jct_s": 1.0}),
        "seed 200001, bounds: the names": with_run(entry, 1, bounds={"makespan_s": 1.0}),
        "seeds: the entry has": changed(entry, runs=[entry.runs[1], entry.runs[0], *entry.runs[2:]]),
        "fingerprint": changed(entry, fingerprint=wrong),
        "results version '0'": changed(entry, results_version="0"),
        "track: the entry is of": changed(entry, track="other"),
    }
    check(entry)
    for message, bad in cases.items():
        with pytest.raises(EntryError, match=message):
            check(bad)
    with pytest.raises(EntryError, match="seeds: the entry has"):
        check(changed(entry, runs=entry.runs[:2]))
    with pytest.raises(EntryError, match="unknown track 'tiny-test'"):
        verify(entry)


def test_clairvoyance_must_be_declared(entries):
    srtf = entries["srtf"]
    assert srtf.player.clairvoyant
    lies = msgspec.structs.replace(srtf.player, clairvoyant=False)
    renamed = msgspec.structs.replace(lies, spec="mine:Own")
    for player in (lies, renamed):
        with pytest.raises(EntryError, match="registered scheduler srtf reads true run times"):
            check(changed(srtf, player=player))
    unknown = msgspec.structs.replace(renamed, name="own")  # a replay cannot detect this: docs/leaderboard.md says so
    check(changed(srtf, player=unknown))
    by_claims = msgspec.structs.replace(lies, spec="srtf:estimator=user", parameters={"estimator": "user"})
    check(changed(srtf, player=by_claims))
    closed = Track("tiny-test", "Tiny", "For tests.", "tiny-v1", clairvoyant=False)
    with pytest.raises(EntryError, match="may not take part"):
        make_entry(closed, "srtf", ABOUT, progress=False)
    about = msgspec.structs.replace(ABOUT, training_seeds=[(0, 10), (200_002, 200_010)])
    with pytest.raises(EntryError, match="keeps for reports"):
        make_entry(TINY, "fifo", about, progress=False)


def test_a_decision_about_a_job_that_has_not_arrived_is_refused(entries):
    entry = entries["fifo"]
    decisions = entry.runs[0].decisions
    first = decisions.jobs[0]
    jobs = [first + 11, decisions.jobs[1] - 11, *decisions.jobs[2:]]  # the last job instead of the first
    assert len(decisions.gpus) > 0
    bad = with_run(entry, 0, decisions=msgspec.structs.replace(decisions, jobs=jobs))
    with pytest.raises(EntryError, match=r"seed 200000: decision 0 \(Start of job 11 .* knows the future"):
        check(bad)


def test_a_log_that_ends_early_is_refused(entries):
    decisions = entries["fifo"].runs[0].decisions
    last = decisions.gpu_counts[-1]
    columns = {name: getattr(decisions, name)[:-1] for name in ("kinds", "points", "times_ms", "jobs", "gpu_counts")}
    cut = msgspec.structs.replace(decisions, **columns, gpus=decisions.gpus[:-last])
    with pytest.raises(EntryError, match="leave 1 jobs unfinished"):
        check(with_run(entries["fifo"], 0, decisions=cut))
    late = [*decisions.points[:-1], decisions.points[-1] + 10_000]
    with pytest.raises(EntryError, match="never comes"):
        check(with_run(entries["fifo"], 0, decisions=msgspec.structs.replace(decisions, points=late)))
    with pytest.raises(EntryError, match=r"gpus has .* values"):
        check(with_run(entries["fifo"], 0, decisions=msgspec.structs.replace(decisions, gpus=decisions.gpus[:-1])))


@FEW
@hypothesis.given(data=st.data())
def test_a_changed_decision_is_detected(entries, data):
    """The seal is valid, so only the replay can detect the change."""
    entry = entries[data.draw(st.sampled_from(("fifo", "srtf", "delay-zaharia")))]
    number = data.draw(st.integers(0, 2))
    decisions = entry.runs[number].decisions
    name = data.draw(st.sampled_from([n for n in decisions.__struct_fields__ if getattr(decisions, n)]))
    column = getattr(decisions, name)
    at = data.draw(st.integers(0, len(column) - 1))
    if name == "kinds":
        other = column[:at] + data.draw(st.sampled_from(sorted(set("SPLW") - {column[at]}))) + column[at + 1 :]
    elif name == "until_s":
        other = [*column[:at], data.draw(st.none() | st.floats(0, 1e5).filter(lambda x: x != column[at]))]
        other += column[at + 1 :]
    else:
        other = [*column[:at], data.draw(st.integers(-3, 5).filter(lambda x: x != column[at])), *column[at + 1 :]]
    with pytest.raises(EntryError):
        check(with_run(entry, number, decisions=msgspec.structs.replace(decisions, **{name: other})))


@FEW
@hypothesis.given(data=st.data())
def test_leases_that_are_changed_are_refused_or_change_nothing(entries, data):
    entry = entries["themis-lite"]
    decisions = entry.runs[0].decisions
    assert "L" in decisions.kinds
    at = data.draw(st.integers(0, len(decisions.until_s) - 1))
    other = [*decisions.until_s[:at], data.draw(st.none() | st.floats(0, 1e5)), *decisions.until_s[at + 1 :]]
    bad = with_run(entry, 0, decisions=msgspec.structs.replace(decisions, until_s=other))
    with contextlib.suppress(EntryError):
        assert verify(bad, track=TINY)[0].digest == entry.runs[0].digest


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@FEW
@hypothesis.given(data=st.data())
def test_fuzzed_entries_are_refused_without_side_effects(entries, data, tmp_path_factory):
    entry = json.loads(entries["delay-zaharia"].text())
    node, path = entry, []
    while isinstance(node, dict | list) and node and (not path or data.draw(st.integers(0, 3))):
        keys = sorted(node) if isinstance(node, dict) else range(len(node))
        path.append(data.draw(st.sampled_from(keys)))
        node = node[path[-1]]
    parent = entry
    for key in path[:-1]:
        parent = parent[key]
    if data.draw(st.booleans()):
        parent[path[-1]] = data.draw(VALUES)
    else:
        del parent[path[-1]]
    here = tmp_path_factory.mktemp("fuzzed")
    before = os.getcwd()
    os.chdir(here)
    try:
        fuzzed = msgspec.json.decode(json.dumps(entry), type=Entry).sealed()
        (here / "a.entry.xz").write_bytes(pack_entry(fuzzed))
        verify(read_entry("a.entry.xz"), track=TINY, seconds=20)
        assert fuzzed.runs == entries["delay-zaharia"].runs  # only descriptive fields may differ
    except (EntryError, msgspec.MsgspecError):
        pass
    finally:
        os.chdir(before)
    assert {path.name for path in here.iterdir()} <= {"a.entry.xz"}


def test_memory_for_reading_an_entry_is_bounded(entries):
    """30 MB of JSON that compress to a few kB are refused before they are parsed into lists."""
    text = entries["fifo"].text()
    many = b"1000," * 6_000_000
    shapes = {
        "points has": text.replace(b'"points":[', b'"points":[' + many, 1),
        "values beside": text.replace(b'"parameters":{', b'"parameters":{"a":[' + many + b"0],", 1),
        "besides those": text.replace(b'"points":[', b'"points":[' + many + b'0],"points":[', 1),
    }
    for message, forged in shapes.items():
        tracemalloc.start()
        with pytest.raises(EntryError, match=message):
            parse_entry(forged)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2 * len(forged)
    run = text.partition(b'"runs":[')[2].partition(b',{"seed"')[0]
    many_runs = text.replace(b'"runs":[', b'"runs":[' + 1001 * (run + b","), 1)
    with pytest.raises(EntryError, match=r"it has 1,004 runs; an entry may have 1,000"):
        parse_entry(many_runs)


def test_an_entry_that_takes_too_much_memory_is_refused(monkeypatch, tmp_path, entries):
    def fail(text: bytes) -> None:
        raise MemoryError

    write_entry(entries["fifo"], tmp_path / "a.entry.xz")
    monkeypatch.setattr(entry_files, "check_sizes", fail)
    with pytest.raises(EntryError, match="reading it takes more memory than there is"):
        read_entry(tmp_path / "a.entry.xz")
    monkeypatch.setattr(columns, "check_lengths", lambda *_: fail(b""))
    with pytest.raises(EntryError, match="seed 200000: replaying it takes more memory than there is"):
        verify(entries["fifo"], track=TINY)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.entry.xz")
    with pytest.raises(EntryError, match="not a regular file"):
        read_entry(tmp_path / "a.entry.xz")


def test_a_lease_without_effect_is_refused_and_not_recorded(entries):
    class Leasing(Scheduler):
        def decide(self, view):
            for job in view.waiting.tolist():
                yield Start(job)
                yield Lease(job, math.inf)  # refused, or without effect
            for job in view.running.tolist():
                yield Lease(job, 1e9)
                yield Lease(job, 1e9)  # again

    instance = get_scenario("tiny-v1").instance(200_000)
    _, decisions = record(instance, Leasing(), 200_000)
    assert decisions.kinds.count("L") == decisions.kinds.count("S") == 12
    first = decisions.kinds.index("L")
    at = decisions.kinds[: first + 1].replace("W", "").rindex("L")
    twice = msgspec.structs.replace(
        decisions,
        kinds=decisions.kinds[: first + 1] + decisions.kinds[first:],
        points=[*decisions.points[: first + 1], 0, *decisions.points[first + 1 :]],
        times_ms=[*decisions.times_ms[: first + 1], 0, *decisions.times_ms[first + 1 :]],
        jobs=[*decisions.jobs[: at + 1], 0, *decisions.jobs[at + 1 :]],
        until_s=[1e9, *decisions.until_s],
    )
    with pytest.raises(EntryError, match="has no effect: the job's lease ends then anyway"):
        replay(instance, 200_000, twice)


def test_minus_zero_is_not_zero(entries):
    entry = entries["fifo"]
    run = entry.runs[0]
    [name] = [name for name, value in run.metrics.items() if value == 0.0][:1]
    with pytest.raises(MismatchError, match=rf"metrics.{name}: the entry says -0.0, the replay gives 0.0"):
        check(with_run(entry, 0, metrics=run.metrics | {name: -0.0}))
    leases = entries["themis-lite"].runs[0].decisions
    with pytest.raises(EntryError, match=r"until_s: -0.0"):
        unpack(msgspec.structs.replace(leases, until_s=[-0.0, *leases.until_s[1:]]))


def test_the_replay_is_bounded_within_a_decision_point():
    """All jobs start at time 0, at one decision point: the limit is checked within it."""

    class Counted(Budget):
        checks = 0

        def check(self) -> None:
            self.checks += 1
            if self.checks > 5:
                raise EntryError("over")

    instance = get_scenario("rar-160-v0").instance(200_000)
    _, decisions = record(instance, make_scheduler("fifo-skip"), 200_000)
    assert np.cumsum(decisions.points)[10] == 0
    budget = Counted()
    with pytest.raises(EntryError, match="over"):
        replay(instance, 200_000, decisions, budget)
    assert sum(decisions.points[:5]) == 0


def test_the_replay_is_bounded(entries, monkeypatch):
    with monkeypatch.context() as patched:
        clock = itertools.count(0.0, 100.0)  # each call finds the CPU clock 100 s later
        patched.setattr("gpusched_env.leaderboard.replaying.time.process_time", lambda: next(clock))
        with pytest.raises(EntryError, match="takes more than 60 s of CPU"):
            check(entries["fifo"], seconds=60.0)
    instance = get_scenario("tiny-v1").instance(200_000)
    with pytest.raises(EntryError, match="longer than 10 events"):
        replay(instance, 200_000, entries["fifo"].runs[0].decisions, Budget(events=10))


# --- scores


def test_scores_against_fifo_and_the_bound(entries):
    fifo, srtf = entries["fifo"].runs, entries["srtf"].runs
    zero = score(fifo, fifo, "mean_jct_s")
    assert (zero.mean, zero.low, zero.high) == (0.0, 0.0, 0.0)
    bound = [msgspec.structs.replace(run, metrics=run.metrics | run.bounds) for run in srtf]
    for metric in ("mean_jct_s", "makespan_s"):
        assert score(bound, fifo, metric).low == pytest.approx(1.0)
    better = score(srtf, fifo, "mean_jct_s")
    assert 0 < better.low < better.mean < better.high < 1
    ratio = compared(srtf, fifo, "mean_jct_s")
    assert ratio.low < ratio.mean < 1
    means = [math.fsum(math.log(run.metrics["mean_jct_s"]) for run in runs) / 3 for runs in (srtf, fifo)]
    assert ratio.mean == pytest.approx(math.exp(means[0] - means[1]))
    with pytest.raises(ValueError, match="different seeds"):
        score(srtf[1:], fifo, "mean_jct_s")
