"""No module uses functions whose results differ between machines:
gpusched_env.portable has equal ones. Checks syntax trees.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("gpusched_env", "baselines", "traces", "agents")
# Files whose numbers enter no run, metric or entry: pictures, descriptions, tables of papers, fits, training; and
# files that round their results.
FREE = (
    "gpusched_env/evaluation/", "gpusched_env/reports/", "gpusched_env/cli/",
    "gpusched_env/network/drawing.py", "gpusched_env/network/layout.py",
    "gpusched_env/network/topologies.py", "gpusched_env/support/units.py", "gpusched_env/portable/",
    "traces/generators/acceptance.py", "traces/description.py",
    "agents/ppo.py", "agents/cloning.py",  # a trained network need not be the same on other machines; playing it is
    "agents/learned_timers.py",  # actions are rounded
    "baselines/gavel/program.py",  # shares are rounded
)  # fmt: skip
ELEMENTARY = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "power", "float_power", "sin", "cos", "tan", "tanh",
    "sinh", "cosh", "hypot", "cbrt", "geomspace", "logspace", "interp", "dot", "matmul", "einsum", "vdot", "inner",
    "average", "convolve", "corrcoef", "erf", "gamma", "lgamma",
}  # fmt: skip
DRAWS = {
    "normal", "standard_normal", "exponential", "standard_exponential", "standard_gamma", "lognormal", "poisson",
    "uniform", "gauss", "expovariate", "lognormvariate", "normalvariate", "gammavariate",
}  # fmt: skip


def sources() -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if not path.is_symlink()]
    inside = [path for path in found if not {"agents", "baselines", "traces"} & set(path.relative_to(ROOT).parts[1:-1])]
    return sorted(path for path in inside if not str(path.relative_to(ROOT)).startswith(FREE))


# Single lines: such functions there decide no result.
ALLOWED = {
    # where the last bits could change the float32 result, the portable log1p decides (tests/envs/test_log_scale.py)
    "gpusched_env/envs/observation/time_scale.py": ["math.log"],
}


def is_whole(node: ast.expr) -> bool:
    """Whether an exponent is a whole number: such powers are products."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def taken(node: ast.AST) -> str:
    """The machine-dependent function that a node uses; empty = none."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "@"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        constant = isinstance(node.left, ast.Constant) and isinstance(node.right, ast.UnaryOp | ast.Constant)
        return "" if constant or is_whole(node.right) else "**"
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = node.value.id
        elementary = owner in ("np", "math") and node.attr in ELEMENTARY
        drawn = node.attr in DRAWS and owner not in ("draws", "job_stream")  # Python's own uniform is exact
        return f"{owner}.{node.attr}" if elementary or drawn else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "argsort":
        return "" if any(word.arg == "kind" for word in node.keywords) else "argsort without kind"
    return ""


def found_in(tree: ast.AST) -> list[str]:
    return [f"line {node.lineno}: {what}" for node in ast.walk(tree) if (what := taken(node))]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_results_use_no_function_that_differs_between_machines(path):
    found = [told.split(": ")[1] for told in found_in(ast.parse(path.read_text(encoding="utf-8")))]
    assert found == ALLOWED.get(str(path.relative_to(ROOT)), [])


def test_functions_that_differ_between_machines_are_found():
    told = found_in(
        ast.parse("math.exp(x); np.log(x); a @ b; x**0.5; x**y; rng.normal(); np.argsort(x); x**2; 2.0**-54; x**-1.5")
    )
    assert len(told) == 8
