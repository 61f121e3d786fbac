"""Make pages from templates; texts are escaped, and a page runs only the scripts that it was made with."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import importlib.util
import lzma
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpusched_env import __version__
from gpusched_env.errors import GpuschedError
from gpusched_env.support.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2 import Environment

LIBRARY: Final = "plotly-reports.min.js"  # of plotly.js 4.1.1 (MIT), made by studies/plotly_bundle.mjs
# A page may make no requests. Plotly needs data URLs, with which it saves pictures, and inline styles.
POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:"


def need_libraries(what: str) -> None:
    """Raise an error if the extra ``report`` is missing; ``what`` names the feature that needs it."""
    if importlib.util.find_spec("jinja2") is None:
        raise GpuschedError(f"{what} needs jinja2: pip install 'gpusched-env[report]'")


def asset(name: str) -> str:
    """Return the text of a script or style sheet of this package, or of LIBRARY."""
    folder = files("gpusched_env.reports") / "assets"
    if name == LIBRARY:
        return lzma.decompress((folder / f"{LIBRARY}.xz").read_bytes()).decode()
    return (folder / name).read_text(encoding="utf-8")


def inline_policy(scripts: Iterable[str]) -> str:
    """Return the content security policy of a page that may run exactly these inline scripts."""
    sums = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in sums)
    return f"{POLICY}; script-src {allowed}; style-src 'unsafe-inline'"


@functools.cache
def environment(*folders: Path) -> Environment:
    """Return what fills the templates of this package, and those of other folders."""
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader("gpusched_env.reports"), FileSystemLoader(folders)])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def page(template: str, **fields: Any) -> str:
    """Fill a template. All fields are escaped, except those of type :class:`markupsafe.Markup`."""
    return environment().get_template(template).render(version=__version__, **fields)


def write_page(path: str | Path, template: str, scripts: Iterable[str], **fields: Any) -> None:
    """Write a self-contained page, atomically; ``scripts`` are names of assets, which the page runs in their order."""
    from markupsafe import Markup

    library, *texts = (asset(name) for name in (LIBRARY, *scripts))
    inline = {
        "policy": inline_policy([library, *texts]),
        "style": Markup(asset("style.css")),
        "library": base64.b64encode(gzip.compress(library.encode(), mtime=0)).decode(),
        "scripts": list(map(Markup, texts)),
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, page(template, **inline, **fields))
