"""Replay entries in a child process with a limit on its CPU time, so that no entry can stop who verifies it."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from gpusched_env.core.handle import set_listener
from gpusched_env.errors import EntryError
from gpusched_env.evaluation.processes import end_with
from gpusched_env.support.warmup import Teller

SPARE_S: Final = 10.0  # [CPU s] beyond the limit: a replay that sees the limit itself says which decision it reached
COMPILE_S: Final = 30.0  # [CPU s] more for each kernel that the child must compile
WALL: Final = 20.0  # the parent waits for this many times the CPU time; on Windows, this is the only limit
_SERVE: Final = "from gpusched_env.leaderboard.child_process import serve; serve({})"


class _Child:
    """A process that answers calls one after the other, until it is killed or its parent ends."""

    def __init__(self) -> None:
        paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE.format(os.getpid())],  # -P: no modules of the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": paths},
        )

    def ask(self, call: bytes, wall_s: float) -> tuple[bool, Any] | None:
        """Return the answer to a pickled call; None = the child has died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        timer = threading.Timer(min(wall_s, threading.TIMEOUT_MAX), self.process.kill)
        timer.start()
        try:
            with contextlib.suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):
                self.process.stdin.write(call)
                self.process.stdin.flush()
                answer: tuple[bool, Any] = pickle.load(self.process.stdout)
                return answer
        except BaseException:  # Ctrl-C, for one: the child still works on the call
            self.end()
            raise
        finally:
            timer.cancel()
        self.end()
        return None

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


_child: _Child | None = None  # of this process; it lives on, because its start takes as long as a replay


def apart(function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> Any:
    """Call a function in a child process with a limit on its CPU time [s]; return its result, which can be pickled."""
    global _child
    if _child is None or _child.process.poll() is not None:
        _child = _Child()
    most_s = seconds + SPARE_S
    answer = _child.ask(pickle.dumps((function, arguments, most_s)), WALL * (most_s + COMPILE_S))
    if answer is None:
        _child = None
        raise EntryError(f"its replay takes more than {seconds:g} s of CPU time, or its process died")
    is_result, value = answer
    if is_result:
        return value
    raise value


def serve(parent: int) -> None:
    """Answer the calls of the parent process, until it ends."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to both; the parent ends this process
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what something prints must not get between the answers
    while True:
        try:
            function, arguments, seconds = pickle.load(calls)
        except EOFError:
            return
        try:
            with _limited(seconds):
                answer = True, function(*arguments)
        except Exception as error:
            answer = False, error
        answers.write(pickle.dumps(answer))
        answers.flush()


@contextlib.contextmanager
def _limited(seconds: float) -> Any:
    """Let the system kill this process if the context takes more CPU time, without that of compiling kernels."""
    try:
        import resource
    except ImportError:  # Windows
        yield
        return

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    end_s, tell = time.process_time() + min(seconds, 1e9), Teller()

    def limit() -> None:
        most = int(end_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most if hard < 0 else min(most, hard), hard))

    def more(done: int, missing: int, name: str) -> None:
        nonlocal end_s
        end_s += COMPILE_S
        limit()
        tell(done, missing, name)

    set_listener(more)
    limit()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
        set_listener(tell)
