"""``python -m tools``: the commands of a clone, which the package does not have."""

from __future__ import annotations

from gpusched_env.support.commands import Commands
from gpusched_env.support.consoles import output_checked, prepare_output
from tools.calibration.commands import calibration
from tools.datasets.commands import dataset
from tools.leaderboard.commands import build, write_baselines_of

app = Commands("What the maintainers of gpusched-env use.")
app.add("calibration")(calibration)
app.add("datasets")(dataset)
app.add("entries")(write_baselines_of)
app.add("site", tables=True)(build)

if __name__ == "__main__":
    prepare_output()
    with output_checked():
        app(prog_name="python -m tools")
