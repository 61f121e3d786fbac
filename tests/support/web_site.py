"""A local web site for tests of downloads: it can truncate, stall, redirect and refuse."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Site:
    """Behaviour of the site for the next requests; ``requests`` records path and Range of each."""

    body: bytes
    ranges: bool = True  # honours Range
    limit: int | None = None  # [byte] an answer is truncated at this length
    statuses: list[int] = field(default_factory=list)  # of the next answers; then 200
    pause_s: float = 0.0  # before an answer
    silent: bool = False  # no answer comes until it is False
    held: bool = False  # an answer stops after a block of 64 KiB until it is False
    hang_up: int = 0  # number of requests without an answer
    moved: bool = False  # every path but /new is redirected there
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    port: int = 0

    @property
    def template(self) -> str:
        return f"http://127.0.0.1:{self.port}/{{repository}}/{{commit}}/{{path}}"


@contextmanager
def running(body: bytes) -> Iterator[Site]:
    site = Site(body)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        site.silent = site.held = False
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        site, wanted = self.site, self.headers.get("Range")
        site.requests.append((self.path, wanted))
        time.sleep(site.pause_s)
        while site.silent:
            time.sleep(0.01)
        if site.hang_up:
            site.hang_up -= 1
            return
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            self.send_error(406)  # some servers would compress the answer, and a range of compressed bytes is useless
            return
        if site.statuses:
            self.send_error(site.statuses.pop(0))
            return
        if site.moved and self.path != "/new":
            self.send_response(302)
            self.send_header("Location", "/new")
            self.end_headers()
            return
        first = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and site.ranges else 0
        if first and first >= len(site.body):
            self.send_error(416)
            return
        rest = site.body[first:]
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(rest)))
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(site.body) - 1}/{len(site.body)}")
        self.end_headers()
        try:
            for start in range(0, len(rest[: site.limit]), 1 << 16):
                self.wfile.write(rest[: site.limit][start : start + (1 << 16)])
                while site.held:
                    time.sleep(0.01)
        except ConnectionError:
            pass  # the client went away

    def log_message(self, *_: Any) -> None:
        """Print nothing."""
