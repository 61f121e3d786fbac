"""The Gymnasium environments.

``cluster_env`` holds the environment, ``cluster_vector_env`` its vector form, ``observation`` the observation arrays,
``step`` the kernels of a step, ``rewards`` the reward components and ``rendering`` the text and picture of an
environment.
"""
