"""Parsing of options of the form ``name=value,name=value``."""

from __future__ import annotations


def split_assignments(text: str, form: str) -> dict[str, str]:
    """Split ``name=value,...`` into a dict. Blanks around names and values are removed; a value may be empty.

    Parameters
    ----------
    text : the assignments, separated by commas
    form : how one assignment must look, such as ``name=value``; only error messages show it
    """
    found: dict[str, str] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not name or not equals or name in found:
            raise ValueError(f"{name} is given twice" if name in found else f"{item!r} is not of the form {form}")
        found[name] = value
    return found
