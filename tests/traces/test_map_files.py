"""Mappings of a user's CSV in a file: guessed, written, corrected, read, and errors that name file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import TraceError
from gpusched_env.scenarios import get_scenario
from gpusched_env.traces import read_trace
from gpusched_env.traces.parsing.map_files import guessed_map, read_map

OWN = 'JobID,submit_time,n_gpus,"its ""own"" min",User,wall_h,host\na,7,2,10,u1,1,x\nb,9,1,5.5,u2,2,x\n'


def own(folder: Path, text: str = OWN) -> Path:
    path = folder / "own.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_guess_is_written_corrected_and_read(tmp_path: Path) -> None:
    log, mapping = own(tmp_path), tmp_path / "own.toml"
    command = ["traces", "map", f"csv:{log}", "--output", str(mapping)]
    shown = CliRunner().invoke(app, command)
    assert "own.toml: 4 roles guessed" in shown.output.replace("\n", "")
    assert CliRunner().invoke(app, command).exit_code != 0  # it may hold corrections
    text = mapping.read_text()
    assert read_map(mapping) == {"arrival": "submit_time", "gpus": "n_gpus", "id": "JobID", "user": "User"}
    assert '# duration (needed): its run time\n# duration = ""\n' in text
    assert '#   "its \\"own\\" min": 10\n#   "wall_h": 1\n#   "host": x\n' in text
    with pytest.raises(TraceError, match="no column looks like the duration"):
        read_trace(f"csv:{log}", map=str(mapping))
    mapping.write_text(text.replace('# duration = ""', 'duration_h = "wall_h"').replace('"User"', '""'))
    found, report = read_trace(f"csv:{log}", map=str(mapping))
    assert found.jobs["duration_s"].tolist() == [3_600, 7_200]
    assert sorted(found.attributes) == ["original_id"]
    assert "duration = wall_h [hours]" in report.columns[0]
    same = {"arrival": "submit_time", "gpus": "n_gpus", "duration_h": "wall_h", "id": "JobID", "user": ""}
    assert read_trace(f"csv:{log}", map=same)[0].fingerprint() == found.fingerprint()


def test_a_scenario_holds_what_the_file_says(tmp_path: Path) -> None:
    log, mapping = own(tmp_path), tmp_path / "own.toml"
    mapping.write_text('duration_h = "wall_h"\n')
    tiny = get_scenario("tiny-v1")
    prints = {
        tiny.with_workload(f"csv:{log}", parameters={"map": given}, profiles="unit").fingerprint()
        for given in (str(mapping), read_map(mapping), {"duration_h": "wall_h"})
    }
    assert len(prints) == 1
    shown = CliRunner().invoke(app, ["traces", "describe", f"csv:{log}", "--map", str(mapping), "--cluster", "2x8"])
    assert shown.exit_code == 0, shown.output


def test_what_several_columns_could_be_is_left_to_the_user(tmp_path: Path) -> None:
    log = own(tmp_path, "submit,arrival_ms,gpus,duration,start,end_min,user\n0,1,2,3,4,5,\n")
    text = guessed_map(log)
    assert '\nuser = "user"\n' in text  # the first row has none
    assert "# several columns could have this role: keep one of these lines\n" in text
    assert '# arrival = "submit"  # such as 0\n# arrival_ms = "arrival_ms"  # such as 1\n' in text
    assert '\nduration = "duration"  # such as 3\n' in text
    assert '# start = "start"  # such as 4\n' in text
    assert '# end_min = "end_min"  # such as 5\n' in text
    mapping = tmp_path / "m.toml"
    mapping.write_text(text.replace('# arrival_ms = "', 'arrival_ms = "'))
    assert read_trace(f"csv:{log}", map=str(mapping))[0].jobs["duration_s"].tolist() == [3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('\narival = "submit_time"', "m.toml, line 2, field 'arival': unknown role 'arival': did you mean 'arrival'"),
        ("\n\ngpus = 3", "m.toml, line 3, field 'gpus': 3 is no column; write ROLE"),
        ("[map]\narrival = 'a'", "m.toml, line 1, field 'map': {'arrival': 'a'} is no column"),
        ("arrival = ", "m.toml, line 1: not valid TOML"),
        ('gpus = "n"\ngpus = "m"', "m.toml, line 2: not valid TOML"),
        ('duration = "wall_h"\nduration_h = "wall_h"', "m.toml, line 2, field 'duration_h': duration is given twice"),
        ('gpus = "gpu"', "m.toml, line 1, field 'gpus': "),
        ('gpus = "gpu"', "own.csv, line 1: unknown column 'gpu'"),
        ('# x\nduration = "wall_h"', "line 2, field 'duration': "),
        ('# x\nduration = "wall_h"', "is 'wall_h' in hours? write duration_h, or duration_s for seconds"),
    ],
)
def test_errors_name_file_line_and_field(tmp_path: Path, text: str, words: str) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text(text)
    with pytest.raises(TraceError) as caught:
        read_trace(f"csv:{own(tmp_path)}", map=str(mapping))
    assert words in str(caught.value)
    with pytest.raises(TraceError, match="cannot be read"):
        read_map(tmp_path / "none.toml")


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), min_size=1, max_size=6, unique=True))
def test_a_guess_is_always_a_file_that_can_be_read(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    folder = tmp_path_factory.mktemp("guess")
    log = own(folder, ",".join('"' + name.replace('"', '""') + '"' for name in ("n_gpus", *names)) + "\n")
    mapping = folder / "m.toml"
    complaint = ""
    try:
        mapping.write_text(guessed_map(log), encoding="utf-8")
        assert read_map(mapping).get("gpus", "n_gpus") == "n_gpus"
    except TraceError as error:  # a carriage return inside of quotes, for example, is no header
        complaint = str(error)
    assert not complaint or str(log) in complaint


def test_several_options_are_one_map_and_a_role_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("a,b,c\n0,9,4\n")
    command = ["traces", "read", f"csv:{tmp_path / 'jobs.csv'}", "--map", "arrival=a,duration=b", "--map"]
    told = CliRunner().invoke(app, [*command, "gpus=c"])
    assert told.exit_code == 0
    assert "columns as mapped: arrival = a [seconds]; duration = b [seconds]; gpus = c" in told.output
    (tmp_path / "map.toml").write_text('gpus = "c"\n')
    assert CliRunner().invoke(app, [*command, str(tmp_path / "map.toml")]).output == told.output
    told = CliRunner().invoke(app, [*command, "gpus=c,arrival=c"])
    assert told.exit_code != 0
    assert "arrival is given twice" in " ".join(told.output.split())
