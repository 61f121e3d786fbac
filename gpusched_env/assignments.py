"""Options of the form ``name=value,name=value``."""

from __future__ import annotations


def split_assignments(text: str, form: str) -> dict[str, str]:
    """Split ``name=value,...``; blanks around names and values do not count, and a value may be empty.

    Parameters
    ----------
    form : what one of them looks like, for errors

    Raises
    ------
    ValueError : another form, or a name given twice; the message says which
    """
    found: dict[str, str] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not name or not equals or name in found:
            raise ValueError(f"{name} is given twice" if name in found else f"{item!r} is not of the form {form}")
        found[name] = value
    return found
