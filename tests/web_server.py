"""A server of files for tests: it gives ranges, and breaks connections when it is told to."""

import hashlib
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Files:
    """What a server has, what it was asked for, and how it fails.

    Attributes
    ----------
    contents
        Path -> bytes.
    breaks
        Of each coming request for a file: after how many bytes the connection ends.
    statuses
        Of each coming request: the status that is answered instead.
    sent
        Path -> how many of its bytes were sent.
    asked
        Method, path and range of each request.
    types
        Path -> its media type, by default that of any bytes.
    has_ranges
        Whether parts of a file are given.
    address
        Where it is served.
    """

    address = ""

    def __init__(self):
        self.clear()

    def clear(self):
        """Have nothing, and forget what was asked; it goes on at its address."""
        self.contents, self.breaks, self.statuses = {}, [], []
        self.sent, self.asked, self.types = {}, [], {}
        self.has_ranges = True


@contextmanager
def serving():
    """Files that are served at their address."""
    files = Files()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.answer(with_body=False)

        def do_GET(self):
            self.answer(with_body=True)

        def answer(self, with_body):
            path = self.path.partition("?")[0]
            wanted = self.headers.get("Range")
            files.asked.append((self.command, path, wanted))
            status = files.statuses.pop(0) if files.statuses else None
            if status or path not in files.contents:
                self.send_error(status or 404)
                return
            content = files.contents[path]
            etag = f'"{hashlib.sha256(content).hexdigest()[:12]}"'
            first = 0
            if wanted and files.has_ranges and self.headers.get("If-Range", etag) == etag:
                first = int(wanted.removeprefix("bytes=").partition("-")[0])
            self.send_response(206 if first or (wanted and files.has_ranges) else 200)
            self.send_header("ETag", etag)
            self.send_header("Content-Type", files.types.get(path, "application/octet-stream"))
            self.send_header("Content-Length", str(len(content) - first))
            if wanted and files.has_ranges:
                rest = f"bytes {first}-{len(content) - 1}/{len(content)}"
                self.send_header("Content-Range", rest)
            self.end_headers()
            if with_body:
                end = first + files.breaks.pop(0) if files.breaks else len(content)
                body = content[first:end]
                files.sent[path] = files.sent.get(path, 0) + len(body)
                self.wfile.write(body)
                self.close_connection = True

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        files.address = f"http://127.0.0.1:{server.server_port}"
        yield files
    finally:
        server.shutdown()
        server.server_close()
