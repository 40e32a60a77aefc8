"""Downloads against a real local server that behaves, and one that misbehaves in each known way."""

import gzip
import hashlib
import random
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from translate.data import download
from translate.data.download import Source, fetch
from translate.errors import UserError

FILE = gzip.compress(random.Random(1).randbytes(300_000))
OTHER = gzip.compress(random.Random(2).randbytes(300_000))
SHA256 = hashlib.sha256(FILE).hexdigest()
MD5 = hashlib.md5(FILE).hexdigest()
PAGE = b"\n<!DOCTYPE html><html><body>Please log in</body></html>"


@dataclass
class Server:
    """Serves bodies by path; what else it does to them is set by the tests."""

    url: str = ""
    bodies: dict[str, bytes] = field(default_factory=lambda: {
        "/file.gz": FILE, "/other.gz": OTHER, "/page.gz": PAGE, "/truncated.gz": FILE[:100_000]})
    cuts: list[int] = field(default_factory=list)  # bytes after which the next answers are cut
    ranges: bool = True  # whether Range is heeded
    shift: int = 0  # how far an answer to a Range is off
    length: bool = True  # whether Content-Length is sent
    stall: bool = False  # whether it falls silent instead of cutting
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    state = Server()
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.asked.append((self.path, asked))
            body = state.bodies.get(self.path)
            if body is None:
                self.send_error(404)
                return
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
            if asked and state.ranges and start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if asked and state.ranges:
                start -= state.shift
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
                body = body[start:]
            else:
                self.send_response(200)
            if state.length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if state.cuts:
                self.wfile.write(body[:state.cuts.pop(0)])
                if state.stall:
                    over.wait(10)
                return  # the connection is closed, though more was announced
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}).start()
    state.url = f"http://127.0.0.1:{running.server_port}"
    yield state
    over.set()
    running.shutdown()
    running.server_close()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "downloads" / "file.gz"


def part(target: Path) -> Path:
    return target.with_name("file.gz.part")


def refusal(sources: list[Source], target: Path) -> str:
    with pytest.raises(UserError) as raised:
        fetch("corpus", sources, target)
    assert not target.exists()
    return str(raised.value)


@pytest.mark.parametrize("known", [{}, {"sha256": SHA256}, {"md5": MD5}, {"size": len(FILE)},
                                   {"sha256": SHA256, "md5": MD5, "size": len(FILE)}])
def test_a_file_is_fetched_verified_and_moved_into_place(
        server: Server, target: Path, known: dict, capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch("corpus", [Source(f"{server.url}/file.gz", **known)], target) == target
    assert target.read_bytes() == FILE
    assert [path.name for path in target.parent.iterdir()] == ["file.gz"]
    assert capsys.readouterr() == ("", "")  # no progress bar where there is no terminal


def test_a_file_that_is_there_is_not_fetched_again(server: Server, target: Path) -> None:
    source = Source(f"{server.url}/file.gz", sha256=SHA256)
    fetch("corpus", [source], target)
    fetch("corpus", [source], target)
    assert len(server.asked) == 1


def test_a_file_placed_by_hand_is_verified_and_used(target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(FILE)
    sources = [Source("http://nowhere.invalid/a", sha256="0" * 64),
               Source("http://nowhere.invalid/b", md5=MD5)]
    assert fetch("corpus", sources, target) == target  # it is what the second source has


def test_a_wrong_file_placed_by_hand_is_told_and_kept(target: Path) -> None:
    target.parent.mkdir()
    for content, complaint in [(OTHER, "wrong sha256: got"), (PAGE, "an HTML page"),
                               (b"", "no .gz file"), (b"plain text", "no .gz file")]:
        target.write_bytes(content)
        with pytest.raises(UserError, match=f"file.gz: {complaint}.*; delete it"):
            fetch("corpus", [Source("http://nowhere.invalid/a", sha256=SHA256)], target)
        assert target.read_bytes() == content


@pytest.mark.parametrize(("path", "known", "reason"), [
    ("absent.gz", {}, "HTTP 404 Not Found"),
    ("page.gz", {}, "an HTML page instead of the file"),
    ("other.gz", {"sha256": SHA256}, f"wrong sha256: got {hashlib.sha256(OTHER).hexdigest()}, "
                                     f"expected {SHA256}"),
    ("other.gz", {"md5": MD5}, f"wrong md5: got {hashlib.md5(OTHER).hexdigest()}, expected {MD5}"),
    ("truncated.gz", {"size": len(FILE)}, f"wrong bytes: got 100000, expected {len(FILE)}"),
    ("truncated.gz", {"sha256": SHA256}, "wrong sha256"),
])
def test_a_bad_source_is_told_and_the_next_one_used(
        server: Server, target: Path, path: str, known: dict, reason: str) -> None:
    bad = Source(f"{server.url}/{path}", **known)
    message = refusal([bad], target)
    assert message.startswith("corpus: file.gz could not be downloaded:\n")
    assert f"  {bad.url}: {reason}" in message
    assert message.endswith(f"fetch the file by hand and put it at {target}")
    assert not part(target).exists()
    assert len(server.asked) == 1  # such a source is not asked twice

    fetch("corpus", [bad, Source(f"{server.url}/file.gz", sha256=SHA256)], target)
    assert target.read_bytes() == FILE


def test_with_no_network_every_source_is_named_with_its_reason(
        target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        message = refusal([Source(f"{url}/a.gz"), Source(f"{url}/b.gz")], target)
    assert message.count("no connection (Connection refused)") == 2
    assert f"{url}/a.gz" in message and f"{url}/b.gz" in message and str(target) in message


def test_a_mismatch_at_a_lenient_source_is_only_warned_of(
        server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Source(f"{server.url}/other.gz", md5=MD5, strict=False)
    fetch("corpus", [source], target)
    assert target.read_bytes() == OTHER
    assert "warning: " in (warning := capsys.readouterr().err) and "wrong md5" in warning
    assert "HTML" in refusal([Source(f"{server.url}/page.gz", md5=MD5, strict=False)],
                             target.with_name("b.gz"))


def test_a_cut_connection_is_resumed(server: Server, target: Path) -> None:
    server.cuts = [100_000, 50_000]
    fetch("corpus", [Source(f"{server.url}/file.gz", sha256=SHA256)], target)
    assert target.read_bytes() == FILE
    assert [asked for _, asked in server.asked] == [None, "bytes=100000-", "bytes=150000-"]


def test_what_has_arrived_is_kept_for_the_next_start(server: Server, target: Path) -> None:
    source = Source(f"{server.url}/file.gz", sha256=SHA256)
    server.cuts = [100_000, 0, 0]
    message = refusal([source], target)
    assert f"cut off at byte 100,000 of {len(FILE):,}" in message
    assert part(target).read_bytes() == FILE[:100_000]
    fetch("corpus", [source], target)
    assert target.read_bytes() == FILE
    assert server.asked[-1] == ("/file.gz", "bytes=100000-")


def test_what_has_arrived_from_one_source_is_gone_on_from_at_the_next(
        server: Server, target: Path) -> None:
    server.bodies["/mirror.gz"] = FILE
    server.cuts = [100_000, 0, 0]
    fetch("corpus", [Source(f"{server.url}/file.gz", sha256=SHA256),
                     Source(f"{server.url}/mirror.gz", md5=MD5)], target)
    assert target.read_bytes() == FILE
    assert server.asked[-1] == ("/mirror.gz", "bytes=100000-")


def test_a_server_that_ignores_range_is_read_from_the_start(server: Server, target: Path) -> None:
    server.ranges = False
    server.cuts = [100_000]
    fetch("corpus", [Source(f"{server.url}/file.gz", sha256=SHA256)], target)
    assert target.read_bytes() == FILE


def test_an_answer_with_another_range_than_asked_for_is_not_used(
        server: Server, target: Path) -> None:
    server.cuts = [100_000]
    server.shift = 10
    fetch("corpus", [Source(f"{server.url}/file.gz")], target)
    assert target.read_bytes() == FILE


@pytest.mark.parametrize("kept", [OTHER[:100_000], OTHER, FILE + b"more", PAGE, b""],
                         ids=["of another file", "another whole file", "too long", "page", "empty"])
def test_a_kept_part_that_does_not_fit_is_fetched_afresh(
        server: Server, target: Path, kept: bytes) -> None:
    target.parent.mkdir()
    part(target).write_bytes(kept)
    fetch("corpus", [Source(f"{server.url}/file.gz", sha256=SHA256)], target)
    assert target.read_bytes() == FILE


def test_a_page_sent_instead_of_the_rest_does_not_destroy_what_has_arrived(
        server: Server, target: Path) -> None:
    server.ranges = False
    target.parent.mkdir()
    part(target).write_bytes(FILE[:100_000])
    assert "an HTML page" in refusal([Source(f"{server.url}/page.gz")], target)
    assert part(target).read_bytes() == FILE[:100_000]


def test_without_a_content_length_the_known_size_tells_a_cut(server: Server, target: Path) -> None:
    server.length = False
    server.cuts = [100_000]
    fetch("corpus", [Source(f"{server.url}/file.gz", size=len(FILE))], target)
    assert target.read_bytes() == FILE


def test_a_silent_server_is_given_up_after_the_timeout(
        server: Server, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.1)
    server.stall = True
    server.cuts = [100_000, 0, 0]
    message = refusal([Source(f"{server.url}/file.gz", sha256=SHA256)], target)
    assert re.search(r"cut off at byte 100,000 of 300,\d\d\d \(timed out\)", message)


def test_progress_is_shown_on_a_terminal(
        server: Server, target: Path, capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    fetch("corpus", [Source(f"{server.url}/file.gz")], target)
    captured = capsys.readouterr()
    assert "file.gz: 100%" in captured.err and not captured.out
