"""The Gymnasium environments.

``cluster_env`` is the environment, ``columns`` what it shows, ``encoding`` the kernels that show it, ``rewards`` what
it pays, ``rendering`` how it looks, ``playing`` lets any scheduler play through ``env.step``.
"""
