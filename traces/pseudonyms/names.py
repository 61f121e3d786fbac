"""Pseudonyms by HMAC-SHA256: equal names have equal pseudonyms under one key, and only the key tells the names."""

from __future__ import annotations

import hmac
import re
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError

SHORTEST: Final = 16  # [byte] least length of a key; a shorter one can be found by trying
LETTERS: Final = 12  # hexadecimal digits of a pseudonym: two of a million names are equal once in 500 times
NUMBERS: Final = 10**15  # numeric pseudonyms are below twice this number
TOP: Final = "root"  # Slurm's own account, which keeps its name
# Task, part and step of a job; another text behind a number could be a name
_NUMBER: Final = re.compile(
    r"(\d+)((?:_(?:\d+|\*|\[[\d,:%-]*\]?(?:\.\.\.)?))?(?:\+\d+)?(?:\.(?:\d+|batch|extern|interactive))?(?:\+\d+)?)",
    re.ASCII,
)


class Pseudonyms:
    """Pseudonyms under one key.

    Parameters
    ----------
    key : secret of at least SHORTEST bytes
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[tuple[str, str], str] = {}

    @classmethod
    def from_file(cls, path: Path) -> Pseudonyms:
        """Read the key from a file; white space around it does not count.

        Raises
        ------
        TraceError : the file cannot be read, or the key is too short
        """
        try:
            key = path.read_bytes().strip()
        except OSError as error:
            raise TraceError(f"{path}: the key cannot be read ({error.strerror or error}); give a file") from error
        if len(key) < SHORTEST:
            remedy = (
                "write a random text into it, such as that of: python -c 'import secrets; print(secrets.token_hex())'"
            )
            raise TraceError(f"{path}: the key has {len(key)} bytes, fewer than {SHORTEST}; {remedy}")
        return cls(key)

    def name(self, role: str, text: str) -> str:
        """Return the pseudonym of a name in a role, such as ``user-3f09...``; empty names and the account root stay."""
        if not text or (role == "account" and text == TOP):
            return text
        found = self._known.get((role, text))
        if found is None:
            found = f"{role}-{self._digest(role, text)[:LETTERS]}"
            if role != "job":  # a log has too many jobs to remember them
                self._known[role, text] = found
        return found

    def number(self, role: str, text: str) -> str:
        """Return the text with another number for each number in it, so that ids such as ``7_[4-9%2]`` can be read.

        Numbers behind ``_``, ``+`` or ``.``, and those in brackets, count tasks, parts and steps, and stay. A text of
        another form gets a pseudonym as a name.
        """
        found = _NUMBER.fullmatch(text)
        if found is None:
            return self.name(role, text)
        return str(NUMBERS + int(self._digest(role, found[1])[:16], 16) % NUMBERS) + found[2]

    def _digest(self, role: str, text: str) -> str:
        message = f"{role}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256").hex()
