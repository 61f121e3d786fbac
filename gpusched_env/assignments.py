"""Parsing of options of the form ``name=value,name=value``."""

from __future__ import annotations


def split_assignments(text: str, form: str) -> dict[str, str]:
    """Split ``name=value,...``; blanks around names and values are removed, and a value may be empty.

    Parameters
    ----------
    form : form of one assignment, for error messages

    Raises
    ------
    ValueError : an item has another form, or a name is given twice
    """
    found: dict[str, str] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not name or not equals or name in found:
            raise ValueError(f"{name} is given twice" if name in found else f"{item!r} is not of the form {form}")
        found[name] = value
    return found
