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
    framing
        How an answer says where it ends: `length`, `chunked` or `neither`.
    version
        How an answer says which version of a file it is: `ETag`, `Last-Modified` or None.
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
        self.has_ranges, self.framing, self.version = True, "length", "ETag"


@contextmanager
def serving():
    """Files that are served at their address."""
    files = Files()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

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
            digest = hashlib.sha256(content).hexdigest()
            version = f'"{digest[:12]}"'
            if files.version == "Last-Modified":
                version = self.date_time_string(int(digest[:7], 16))
            first = 0
            if wanted and files.has_ranges and self.headers.get("If-Range", version) == version:
                first = int(wanted.removeprefix("bytes=").partition("-")[0])
            self.send_response(206 if first or (wanted and files.has_ranges) else 200)
            if files.version:
                self.send_header(files.version, version)
            self.send_header("Content-Type", files.types.get(path, "application/octet-stream"))
            if files.framing == "length":
                self.send_header("Content-Length", str(len(content) - first))
            elif files.framing == "chunked":
                self.send_header("Transfer-Encoding", "chunked")
            if wanted and files.has_ranges:
                size = len(content) if files.framing == "length" else "*"
                self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{size}")
            self.send_header("Connection", "close")
            self.end_headers()
            if with_body:
                end = first + files.breaks.pop(0) if files.breaks else len(content)
                body = content[first:end]
                files.sent[path] = files.sent.get(path, 0) + len(body)
                if files.framing == "chunked":
                    chunks = (body[at : at + 1000] for at in range(0, len(body), 1000))
                    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
                    body += b"" if end < len(content) else b"0\r\n\r\n"
                self.wfile.write(body)

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
