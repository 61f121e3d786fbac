"""The Gymnasium environments.

``cluster_env`` is the environment, ``observation`` what it shows, ``step`` the kernel of an action, ``rewards`` what
it pays, ``rendering`` how it looks, ``playing`` lets any scheduler play through ``env.step``.
"""
