"""What is installed: the three folders under gpusched_env, never under their bare names; sdist and wheel agree."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distribution, files, requires
from pathlib import Path

import pytest
from code_blocks import before, blocks_of, program_of
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from published import digests, here, published_digests

import gpusched_env

ROOT = Path(__file__).parents[1]
APART = {"rllib": "gymnasium", "tianshou": "filelock"}  # extras that want another version of this package
FOLDERS = ("agents", "baselines", "traces")
BACKEND = "import hatchling.build as b, sys; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"


def build(kind: str, project: Path, output: Path) -> Path:
    """Build without isolation, so without a network; hatchling is in the extra ``test``."""
    output.mkdir(exist_ok=True)
    command = [sys.executable, "-c", BACKEND, kind, str(output)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output / done.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path, Path]:
    """Files of the sdist, the wheel built from it, and the wheel built from the checkout."""
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("not a checkout")
    scratch = tmp_path_factory.mktemp("packaging")
    project = scratch / "checkout"
    skipped = shutil.ignore_patterns(".git", ".*_cache", "__pycache__", ".hypothesis", ".venv", "runs", "dist", "build")
    shutil.copytree(ROOT, project, symlinks=True, ignore=skipped)
    sdist = build("sdist", project, scratch / "sdist")
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        assert all(member.isfile() or member.isdir() for member in archive.getmembers())
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4
        archive.extractall(scratch / "unpacked", **safely)
    [unpacked] = (scratch / "unpacked").iterdir()
    return names, build("wheel", unpacked, scratch / "from_sdist"), build("wheel", project, scratch / "from_checkout")


def test_links_are_relative_and_point_at_the_folders() -> None:
    for name in FOLDERS:
        link = ROOT / "gpusched_env" / name
        assert os.readlink(link) == f"../{name}", "a checkout needs symbolic links"
        assert (ROOT / name / "__init__.py").exists()


def test_the_wheel_holds_every_module_once(built: tuple[list[str], Path, Path]) -> None:
    _, from_sdist, from_checkout = built
    with zipfile.ZipFile(from_sdist) as one, zipfile.ZipFile(from_checkout) as two:
        names = one.namelist()
        assert sorted(names) == sorted(two.namelist())
        assert all(one.read(name) == two.read(name) for name in names if not name.endswith("RECORD"))
        entry_points = one.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    assert len(names) == len(set(names))
    top = {name.split("/")[0] for name in names}
    assert top == {"gpusched_env", f"gpusched_env-{gpusched_env.__version__}.dist-info"}  # no bare agents, traces, ...
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "gpusched_env").rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not set(path.relative_to(ROOT).parts[1:2]) & set(FOLDERS)
    }
    sources |= {
        f"gpusched_env/{path.relative_to(ROOT)}"
        for name in FOLDERS
        for path in (ROOT / name).rglob("*")
        if path.suffix in (".py", ".json", ".toml", ".npz", ".csv")
    }
    assert {name for name in names if name.startswith("gpusched_env/")} == sources
    assert "gpusched_env/py.typed" in names
    assert "gpusched = gpusched_env.cli:main" in entry_points


@here
def test_neither_sdist_nor_wheel_holds_a_published_file(built: tuple[list[str], Path, Path]) -> None:
    published = published_digests()
    _, from_sdist, from_checkout = built
    for wheel in (from_sdist, from_checkout):
        with zipfile.ZipFile(wheel) as archive:
            assert [name for name in archive.namelist() if digests(archive.read(name)) & published] == []
    unpacked = [path for path in (from_sdist.parents[1] / "unpacked").rglob("*") if path.is_file()]
    assert len(unpacked) > 100
    assert [path for path in unpacked if digests(path.read_bytes()) & published] == []


def test_the_sdist_holds_the_folders_where_they_are(built: tuple[list[str], Path, Path]) -> None:
    names = {name.partition("/")[2] for name in built[0]}
    for name in FOLDERS:
        assert f"{name}/__init__.py" in names
        assert not any(inside.startswith(f"gpusched_env/{name}") for inside in names)
    assert {"LICENSE", "pyproject.toml", "README.md", "constraints.txt", "tests/test_packaging.py"} <= names


def test_the_wheel_imports_without_the_checkout(built: tuple[list[str], Path, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        wheel.extractall(tmp_path)
    code = (
        "import importlib.util, gpusched_env, gpusched_env.baselines, gpusched_env.agents, gpusched_env.traces as t; "
        "print(t.__file__); print([importlib.util.find_spec(n) for n in ('agents', 'baselines', 'traces')])"
    )
    # -P and -E: not the current folder, nor PYTHONPATH. An editable install lends its checkout's path, hence no bare
    # names from there either.
    command = [sys.executable, "-P", "-E", "-S", "-c", f"import sys; sys.path[:0] = {[str(tmp_path)]}; " + _site(code)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    place, bare = done.stdout.splitlines()
    assert Path(place) == tmp_path / "gpusched_env" / "traces" / "__init__.py"
    assert bare == "[None, None, None]"


def test_the_wheel_alone_plays_the_first_page(built: tuple[list[str], Path, Path], tmp_path: Path) -> None:
    """In an empty folder, of an environment that has what the wheel requires, without extras, and nothing else."""
    venv.create(tmp_path / "venv", symlinks=True)
    [site] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(built[1]) as wheel:
        wheel.extractall(site)
    for name in _closure(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]):
        for top in {file.parts[0] for file in files(name) or () if file.parts[0] != ".."}:
            (site / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    command = tmp_path / "venv" / "bin" / "gpusched"
    command.write_text(f"#!{command.with_name('python')}\nfrom gpusched_env.cli import main\n\nmain()\n")
    command.chmod(0o755)
    program = program_of(blocks_of(before((ROOT / "README.md").read_text("utf-8"), "Train")))
    (tmp_path / "page.py").write_text(program)
    (tmp_path / "empty").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PATH"] = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    environment["LOKY_MAX_CPU_COUNT"] = "1"  # the other core runs other tests
    run = subprocess.run(
        [str(command.with_name("python")), str(tmp_path / "page.py")],
        cwd=tmp_path / "empty", env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, f"{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
    assert "gpusched-env" in run.stdout


def _closure(items: list[str]) -> set[str]:
    """The distributions that these requirements need, directly or not."""
    found: set[str] = set()
    waiting = [Requirement(item) for item in items]
    while waiting:
        want = waiting.pop()
        if (name := _normal(want.name)) in found or (want.marker and not want.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += map(Requirement, requires(name) or ())
    return found


def _site(code: str) -> str:
    """Add the installed packages, but no path of an editable install."""
    import sysconfig

    folders = sorted({sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]})
    return f"sys.path += {folders}; {code}"


def test_pins_cover_every_dependency() -> None:
    pinned = _pins()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: items for name, items in project["optional-dependencies"].items() if name not in APART}
    wanted = [*project["dependencies"], *(item for extra in extras.values() for item in extra)]
    names = {_normal(re.split(r"[\[<>=]", item)[0]) for item in wanted}
    assert names - {"gpusched-env"} <= pinned


@pytest.mark.parametrize(("extra", "other"), APART.items())
def test_the_pins_of_a_library_with_pins_of_its_own_are_ours_but_for_one(extra: str, other: str) -> None:
    ours, theirs = _versions("constraints.txt"), _versions(f"constraints-{extra}.txt")
    assert len(ours.keys() & theirs.keys()) > 50
    assert {name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]} == {other}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][extra]]
    assert {_normal(Requirement(item).name) for item in wanted} <= theirs.keys()


def test_ci_runs_both_ends_of_the_range_of_numba() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [allowed] = [Requirement(item) for item in project["dependencies"] if item.startswith("numba")]
    [oldest] = re.findall(r"^oldest_numba=(\S+)", (ROOT / ".ci" / "run").read_text(), re.M)
    [newest] = re.findall(r"^numba==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
    major, minor, _ = newest.split(".")
    assert allowed.specifier == SpecifierSet(f">={oldest},<{major}.{int(minor) + 1}")


@pytest.mark.parametrize(
    ("python", "machine", "asked"),
    [("3.11", "x86_64", True), ("3.12", "AMD64", True), ("3.13", "x86_64", False), ("3.12", "arm64", False)],
)
def test_the_extra_gavel_requires_ecos_where_it_has_wheels(python: str, machine: str, asked: bool) -> None:
    [item] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["gavel"]
    marker = Requirement(item).marker
    assert marker is not None
    assert marker.evaluate({"python_version": python, "platform_machine": machine}) is asked


def test_pins_cover_transitive_dependencies() -> None:
    pinned = _pins()
    needed: set[str] = set()
    for name in pinned:
        with contextlib.suppress(PackageNotFoundError):  # requirements of packages that are not installed are unknown
            wants = map(Requirement, requires(name) or ())
            needed |= {_normal(want.name) for want in wants if not want.marker or want.marker.evaluate({"extra": ""})}
    assert len(needed) > 30
    for_gpus = {name for name in needed if re.match("cuda|nvidia|triton", name)}  # builds of torch for GPUs pin these
    assert needed - for_gpus <= pinned


def _pins() -> set[str]:
    """Names in constraints.txt."""
    return set(_versions("constraints.txt"))


def _versions(file: str) -> dict[str, str]:
    """Pins by name; such a file has exact versions only: no local ones, no addresses."""
    lines = [line for line in (ROOT / file).read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*", line) for line in lines)
    return {_normal(name): version for name, _, version in (line.partition("==") for line in lines)}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
