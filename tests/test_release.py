"""A release tells one story: pyproject.toml, changelog, citation, Dockerfile, conda recipe, badges and README agree."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import gpusched_env

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION = gpusched_env.__version__
CITATION: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
README = (ROOT / "README.md").read_text("utf-8")


class Instruction(NamedTuple):
    """An instruction of a Dockerfile, such as COPY, and the text after it."""

    name: str
    text: str


def instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile; a backslash continues a line, and a line with # is a comment."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines()]


DOCKERFILE = instructions((ROOT / "Dockerfile").read_text("utf-8"))


def of(name: str) -> list[str]:
    return [one.text for one in DOCKERFILE if one.name == name]


def classified() -> list[str]:
    """The versions of Python among the classifiers."""
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in PROJECT["classifiers"])
    return [one[1] for one in found if one]


def test_instructions_are_read_as_docker_reads_them() -> None:
    text = "# a\nFROM x:1\nRUN a && \\\n    # b\n    c\n\nCOPY a b ./\n"
    assert instructions(text) == [("FROM", "x:1"), ("RUN", "a && c"), ("COPY", "a b ./")]


def test_the_dockerfile_begins_with_a_python_of_the_project() -> None:
    [base] = of("FROM")
    name, _, tag = base.partition(":")
    assert name == "python"
    assert tag.removesuffix("-slim") in classified()


def test_the_dockerfile_installs_as_the_readme_does() -> None:
    [install] = [text for text in of("RUN") if text.startswith("pip")]
    assert f"```bash\n{install}\n```" in README


def test_what_the_dockerfile_copies_is_there_and_installs(tmp_path: Path) -> None:
    """Copy as it does, and build the package there, without the network."""
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    for text in of("COPY"):
        *sources, target = text.split()
        for source in sources:
            assert source not in ignored
            if (ROOT / source).is_dir():
                skipped = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / source, tmp_path / target, symlinks=True, ignore=skipped)
            else:
                assert (tmp_path / target).is_dir()
                shutil.copy(ROOT / source, tmp_path / target)
    code = "import hatchling.build as b; print(b.build_wheel('made'))"
    (tmp_path / "made").mkdir()
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"gpusched_env-{VERSION}" in done.stdout
    assert (tmp_path / "gpusched_env" / "agents" / "__init__.py").exists()  # the links lead somewhere
    assert (tmp_path / "train.py").exists()


def test_the_dockerfile_starts_a_command_of_the_project_as_a_user_that_owns_the_machine_code() -> None:
    [entry] = of("ENTRYPOINT")
    assert json.loads(entry)[0] in PROJECT["scripts"]
    names = [(one.name, one.text) for one in DOCKERFILE]
    assert names.index(("USER", "gpusched")) < names.index(("RUN", "gpusched warmup"))


def test_ci_builds_the_dockerfile_where_docker_runs() -> None:
    assert "docker build" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_the_conda_recipe_is_that_of_pyproject() -> None:
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text("utf-8"))
    assert recipe["package"] == {"name": PROJECT["name"], "version": VERSION}
    wanted = {one.name.lower(): one.specifier for one in map(Requirement, PROJECT["dependencies"])}
    run = dict(one.split(maxsplit=1) for one in recipe["requirements"]["run"])
    assert {name: SpecifierSet(text) for name, text in run.items()} == wanted | {
        "python": SpecifierSet(PROJECT["requires-python"])
    }
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    assert [one.replace(" ", "") for one in recipe["requirements"]["host"][2:]] == build
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    about = {"summary": PROJECT["description"], "license": PROJECT["license"]}
    assert recipe["about"] == about | {"license_file": PROJECT["license-files"][0]}


def test_the_changelog_begins_with_this_version_and_its_date() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    version, day = re.findall(r"^## \[(.+)\] - (.+)$", text, re.M)[0]
    assert (version, date.fromisoformat(day)) == (VERSION, CITATION["date-released"])
    assert len(text.split()) <= 900  # two pages


def test_the_citation_is_of_this_version() -> None:
    assert {"cff-version", "message", "title", "authors"} <= CITATION.keys()  # that the format requires
    assert (CITATION["version"], CITATION["license"]) == (VERSION, PROJECT["license"])
    [entry] = re.findall(r"```bibtex\n@software\{\w+,\n(.*?)\n\}\n```", README, re.S)
    fields = dict(re.findall(r"^  (\w+) += \{(.*)\},?$", entry, re.M))
    told = {name: value.replace("{", "").replace("}", "") for name, value in fields.items()}
    assert told == {
        "title": CITATION["title"],
        "author": CITATION["authors"][0]["name"],
        "year": str(CITATION["date-released"].year),
        "version": VERSION,
    }


def agree(urls: dict[str, str], cited: str | None) -> bool:
    """Whether the addresses of pyproject.toml and CITATION.cff agree, and none is a placeholder."""
    parts = [urlsplit(address) for address in urls.values()]
    made_up = re.compile(r"(^|\.)(example(\.\w+)?|invalid|test|localhost)$")
    real = all(part.scheme == "https" and not made_up.search(part.hostname or "invalid") for part in parts)
    return real and (cited in urls.values() if urls else cited is None)


@pytest.mark.parametrize(
    ("urls", "cited", "good"),
    [
        (["https://pypi.org/project/x"], "https://pypi.org/project/x", True),
        (["https://pypi.org/project/x"], "https://pypi.org/project/y", False),
        (["https://pypi.org/project/x"], None, False),
        ([], "https://pypi.org/project/x", False),
        (["https://example.org/x"], "https://example.org/x", False),
        (["http://pypi.org/project/x"], "http://pypi.org/project/x", False),
        (["https://"], "https://", False),
        ([], None, True),
    ],
)
def test_addresses_that_disagree_or_are_made_up_are_found(urls: list[str], cited: str | None, good: bool) -> None:
    assert agree({str(n): address for n, address in enumerate(urls)}, cited) == good


def test_addresses_agree_and_none_is_made_up() -> None:
    """Without a public address there is none: neither a placeholder nor somebody else's."""
    assert agree(PROJECT["urls"], CITATION.get("repository-code"))


def test_badges_tell_the_facts() -> None:
    spec = importlib.util.spec_from_file_location("badges", ROOT / "docs" / "badges.py")
    assert spec is not None
    assert spec.loader is not None
    badges = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(badges)
    facts = badges.facts()
    assert facts == {"python": f"{classified()[0]} to {classified()[-1]}", "licence": "MIT", "version": VERSION}
    for name, value in facts.items():
        assert (badges.FOLDER / f"{name}.svg").read_text("utf-8") == badges.drawn(name, value)
        [text] = re.findall(rf"!\[(.+?)\]\(docs/_static/badges/{name}\.svg\)", README)
        assert value in text


@pytest.mark.parametrize("version", classified())
def test_classified_versions_are_allowed(version: str) -> None:
    assert SpecifierSet(PROJECT["requires-python"]).contains(version)


def test_the_oldest_and_the_newest_python_are_those_of_ci() -> None:
    text = (ROOT / ".ci" / "run").read_text("utf-8")
    assert f"everything on Python {classified()[0]}" in text
    assert f"python{classified()[-1]}" in text
