"""The kernels of which a step is made, by their numbers in a table, behind those of moves.py.

What few steps need, or what is repeated, is a kernel of its own: compilers compute at the beginning of a kernel, or
before a loop, whatever several of its branches may need, and the addresses of forty arrays take longer than a step.
"""

from __future__ import annotations

from gpusched_env.simulator.binding import mover
from gpusched_env.simulator.moves import MOVES

play_by, renew_by, look_by, settle_by, mark_by, show_links_by, copy_by = map(mover, range(len(MOVES), len(MOVES) + 7))
