"""The observation of an environment: its arrays, in the order in which it shows and writes them."""

from gpusched_env.envs.observation import (  # noqa: I001
    jobs as jobs,
    machines as machines,
    links as links,
    types as types,
    sharing as sharing,
    sizes as sizes,
    tenants as tenants,
    groups as groups,
    outlook as outlook,
)
