"""The list of public files: where each was published, where it is kept, and its expected SHA-256."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

from gpusched_env.errors import FetchError, unknown_name
from gpusched_env.support.files import toml_beside

RAW: Final = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"
# Logs that users download themselves, because their owners publish no checksum
BY_HAND: Final = {
    "acme": "https://github.com/InternLM/AcmeTrace",
    "helios": "https://github.com/S-Lab-System-Group/HeliosData",
}
OPEN_LICENCES: Final = ("Apache-2.0", "CC-BY-4.0", "MIT")


@dataclass(frozen=True, slots=True)
class PublicFile:
    """One file as its owners published it; a row of ``public_files.toml``.

    Fields whose names do not say it: ``name`` = FOLDER/FILE in the data folder; ``paper`` = paper to cite, "" = the
    repository; ``bytes``, ``sha256`` = of the download; ``unpacked_sha256`` = of the file in a .tar.gz, "" = unknown;
    ``rows`` = number of data rows, None = not counted; ``format`` = name of the reader, "" = it is no list of jobs;
    ``address`` = template of the URL.
    """

    name: str
    repository: str
    commit: str
    path: str
    licence: str
    paper: str
    bytes: int
    sha256: str
    unpacked_sha256: str = ""
    rows: int | None = None
    format: str = ""
    alias: str = ""
    address: str = RAW

    @property
    def packed(self) -> bool:
        """Whether the download is a tar archive that contains the file."""
        return self.path.endswith(".tar.gz")

    @property
    def restricted(self) -> bool:
        """Whether the owners state no licence or one that is not in OPEN_LICENCES."""
        return not self.licence.startswith(OPEN_LICENCES)

    @property
    def file(self) -> Path:
        """Path of the file in the data folder; the file may not exist yet."""
        return data_folder() / self.name

    @property
    def download(self) -> Path:
        """Path of the download: the file itself, or the archive in the same folder."""
        return self.file.with_name(PurePosixPath(self.path).name) if self.packed else self.file

    @property
    def partial(self) -> Path:
        """Path of an interrupted download; the name contains the checksum, so versions do not mix."""
        return self.download.with_name(f".{self.download.name}.{self.sha256[:8]}.partial")

    def url(self, template: str) -> str:
        """Fill a template with repository, commit, path, file (last part of the path), name and sha256."""
        fields = {key: quote(getattr(self, key)) for key in ("repository", "commit", "path", "name", "sha256")}
        fields["file"] = PurePosixPath(fields["path"]).name
        try:
            url = template.format_map(fields)
        except (KeyError, ValueError, IndexError, AttributeError):
            url = ""
        if not url.startswith(("http://", "https://")) or not any(
            fields[key] in url for key in ("file", "name", "sha256")
        ):
            raise FetchError(
                f"mirror {template!r}: write an http or https address with the fields "
                "{repository}, {commit} and {path}, or with {file}, {name} or {sha256}"
            )
        return url


def data_folder() -> Path:
    """Return the folder of fetched files.

    The environment variable GPUSCHED_DATA names it. If the variable is not set, the folder is
    ``gpusched_env/traces`` in the platform's cache folder.
    """
    import platformdirs

    chosen = os.environ.get("GPUSCHED_DATA")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("gpusched_env")) / "traces"


@cache
def public_files() -> dict[str, PublicFile]:
    """Return all files that can be fetched, with their names as keys."""
    sources = toml_beside(__file__)["source"]
    files = [PublicFile(**source | row) for source in sources for row in source.pop("files")]
    return {file.name: file for file in sorted(files, key=lambda file: file.name)}


def find(name: str) -> PublicFile:
    """Look up a file by name or alias."""
    known = {file.alias: file for file in public_files().values() if file.alias} | public_files()
    if name in BY_HAND:
        raise FetchError(
            f"{name}: its owners publish no checksum; download it from {BY_HAND[name]} and read it by path"
        )
    if name not in known:
        raise FetchError(unknown_name("public file", name, known, "gpusched traces list '*'"))
    return known[name]


def matching(pattern: str) -> list[PublicFile]:
    """Return the files that match a pattern with ``*``, ``?`` or ``[...]``, or the file with this name or alias."""
    if not any(sign in pattern for sign in "*?["):
        return [find(pattern)]
    found = [file for name, file in public_files().items() if fnmatchcase(name, pattern)]
    if not found:
        raise FetchError(
            f"no public file matches {pattern!r}: gpusched traces list '*' names all {len(public_files())}"
        )
    return found
