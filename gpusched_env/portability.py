"""``python -m gpusched_env.portability`` says where it went."""

if __name__ == "__main__":
    raise SystemExit("python -m gpusched_env.portability is now python -m tools.portability, in a clone")
