"""Pseudonyms by HMAC-SHA256: equal names have equal pseudonyms under one key, and only the key tells the names."""

from __future__ import annotations

import hmac
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.slurm_fields import SLICE

SHORTEST: Final = 16  # [byte] least length of a key; a shorter one can be found by trying
SHOWN: Final = 20  # names that the last line of the command lists
LETTERS: Final = 12  # hexadecimal digits of a pseudonym: two of a million names are equal once in 500 times
DISTINCT: Final = 8  # different bytes that a key needs
RANDOM: Final = "write a random text into it, such as that of: python -c 'import secrets; print(secrets.token_hex())'"
NUMBERS: Final = 10**15  # numeric pseudonyms are below twice this number
KEPT_ROLES: Final = ("partition", "qos", "type", "flavor", "model")  # roles whose names stay unless they are hidden
_TYPED: Final = re.compile(
    r"((?:gres[:/])?gpu:|gres/(?:mps|shard):)(?!no_consume(?:[:(]|$))(?!\d+[kmg]?(?:$|\())([\w.+-]+)(.*)", re.I
)
# Names that are kept by design have no blanks and no signs of other texts
NAME: Final = re.compile(r"[\w.+*-]+(?:,\s*[\w.+*-]+)*|")
_UID: Final = re.compile(r"\(\d+\)$", re.ASCII)
TOP: Final = "root"  # Slurm's own account, which keeps its name
# Task, part and step of a job; another text behind a number could be a name
_NUMBER: Final = re.compile(
    r"(\d+)((?:_(?:\d+|\*|\[[\d,:%-]*\]?(?:\.\.\.)?))?(?:\+\d+)?(?:\.(?:\d+|batch|extern|interactive))?(?:\+\d+)?)",
    re.ASCII,
)


class Pseudonyms:
    """Pseudonyms under one secret key; ``hidden`` are those of KEPT_ROLES whose names get pseudonyms, too.

    ``kept`` : role -> names that stayed; ``dropped`` : key or column -> values left out because of their form.
    """

    def __init__(self, key: bytes, hidden: Collection[str] = ()) -> None:
        self._key = key
        self.hidden = hidden
        self.doubts: list[str] = []  # why others could find the key
        self.kept: dict[str, dict[str, None]] = {}
        self.dropped: Counter[str] = Counter()
        self._known: dict[tuple[str, str], str] = {}

    @classmethod
    def from_file(cls, path: Path, hidden: Collection[str] = ()) -> Pseudonyms:
        """Read the key from a file; white space around it does not count."""
        try:
            key = path.read_bytes().strip()
        except OSError as error:
            raise TraceError(f"{path}: the key cannot be read ({error.strerror or error}); give a file") from error
        if len(key) < SHORTEST:
            raise TraceError(f"{path}: the key has {len(key)} bytes, fewer than {SHORTEST}; {RANDOM}")
        if unknown := [role for role in hidden if role not in KEPT_ROLES]:
            raise TraceError(f"--hide {','.join(unknown)}: expected some of {','.join(KEPT_ROLES)}")
        made = cls(key, hidden)
        if len(set(key)) < DISTINCT:
            made.doubts.append(f"{path}: the key repeats {len(set(key))} bytes, and can be found by trying; {RANDOM}")
        if os.name == "posix" and path.stat().st_mode & 0o077:
            made.doubts.append(f"{path}: others can read the key; run: chmod 600 {path}")
        return made

    def name(self, role: str, text: str) -> str:
        """Return the pseudonym of a name in a role, such as ``user-3f09...``; empty names and the account root stay."""
        text = unicodedata.normalize("NFC", text.strip())
        if role == "user":  # sacctmgr writes a user as xenia(1001)
            text = _UID.sub("", text)
        if not text or (role == "account" and text == TOP):
            return text
        found = self._known.get((role, text))
        if found is None:
            found = f"{role}-{self._digest(role, text)[:LETTERS]}"
            if role != "job":  # a log has too many jobs to remember them
                self._known[role, text] = found
        return found

    def keep(self, role: str, text: str) -> str:
        """Return a name, or names with commas, in one of KEPT_ROLES: as it is, as pseudonym if hidden, "" if a text."""
        text = unicodedata.normalize("NFC", text.strip())
        if role != "model" and not NAME.fullmatch(text):
            self.drop(role)
            return ""
        told = []
        for one in [text] if role == "model" else re.split(r",\s*", text):
            mark = "*" if one.endswith("*") else ""  # sinfo marks the default partition
            name = one.removesuffix("*")
            if role in self.hidden:
                name = self._hidden(role, name)
            elif name:
                self.kept.setdefault(role, {})[name] = None
            told.append(name + mark)
        return ",".join(told)

    def _hidden(self, role: str, name: str) -> str:
        """Return the pseudonym of a name that could stay; readers know a slice of a GPU by its profile, which stays."""
        found = SLICE.fullmatch(name) if role == "type" else None
        if found is None:
            return self.name(role, name)
        return f"{self.name(role, (found[1] or '').rstrip(':_-'))}_{found[2]}".removeprefix("_")

    def typed(self, entry: str) -> str:
        """Return an entry of resources, such as ``gres/gpu:h100=4``, with its GPU type as ``keep`` gives it."""
        found = _TYPED.fullmatch(entry)
        return entry if found is None else found[1] + self.keep("type", found[2]) + found[3]

    def drop(self, key: str) -> None:
        """Count a value that is left out because of its form."""
        self.dropped[key] += 1

    def check(self, path: Path) -> None:
        """Refuse a file in which a name that is kept is that of a user or an account."""
        people = {text.casefold(): role for role, text in self._known if role in ("user", "account")}
        for role, texts in self.kept.items():
            for text in texts:
                if found := people.get(unicodedata.normalize("NFC", text).casefold()):
                    whose = "an account" if found == "account" else "a user"
                    raise TraceError(f"{path}: the {role} {text!r} is also the name of {whose}; add --hide {role}")

    def summary(self) -> str:
        """Return what was kept, and how many values were left out because of their form, in words."""
        kept = {f"{role} {text}": None for role, texts in self.kept.items() for text in texts}
        shown = ", ".join([*kept][:SHOWN]) + (f", and {len(kept) - SHOWN} more" if len(kept) > SHOWN else "")
        lost = ", ".join(f"{count} of {key}" for key, count in self.dropped.items())
        return f"kept: {shown or 'no names'}" + (f"; values that could be names, left out: {lost}" if lost else "")

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
