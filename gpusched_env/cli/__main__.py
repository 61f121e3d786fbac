"""``python -m gpusched_env.cli`` is ``gpusched``."""

from gpusched_env.cli.app import main

main()
