"""Fetching public files: verified, resumed after a cut, moved into place only when whole."""

import hashlib
import http.client
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from translate.errors import UserError

TIMEOUT_SECONDS = 30.0  # without a byte
ATTEMPTS = 3  # at one source, when the connection is cut or a resumed file turns out wrong
MAGIC = {".gz": b"\x1f\x8b", ".tgz": b"\x1f\x8b", ".zip": b"PK"}


@dataclass(frozen=True)
class Source:
    """Where a file can be had, and what is known of it. Size in bytes."""

    url: str
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    strict: bool = True  # False: a wrong size or checksum is warned of, and the file used


class _Cut(Exception):
    """The transfer ended early; what has arrived is kept, and may be gone on from."""


class _Refused(Exception):
    """The source has not, or does not give, the file."""


def fetch(name: str, sources: Sequence[Source], target: Path) -> Path:
    """Have a file at `target`: the one that is there, if it is right, or else downloaded.

    Sources are tried in order. A transfer goes to `target` + ".part", from where the next
    attempt, or the next start, goes on; only a whole and verified file is moved to `target`.

    Raises:
        UserError: with each source's reason, and which file to put where by hand.
    """
    if target.exists():
        faults = []
        for source in sources:
            if (fault := _fault(target, source, target)) is None:
                return target
            faults.append(fault)
        raise UserError(f"{target}: {faults[0]}; delete it to have it downloaded again")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    reasons = []
    for source in sources:
        reason = _try(source, part, target)
        if reason is None:
            os.replace(part, target)
            return target
        reasons.append(f"  {source.url}: {reason}")
    raise UserError("\n".join([f"{name}: {target.name} could not be downloaded:", *reasons,
                               f"Start again later; or name a copy of the corpus with data.root; "
                               f"or fetch the file by hand and put it at {target}"]))


def _try(source: Source, part: Path, target: Path) -> str | None:
    """Download to `part` and verify it; the reason if that fails."""
    reason = None
    for _ in range(ATTEMPTS):
        resumed = part.exists()
        try:
            _transfer(source, part, target)
        except _Cut as cut:
            reason = str(cut)
            continue
        except _Refused as refused:
            return str(refused)
        reason = _fault(part, source, target)
        if reason is None:
            return None
        part.unlink()
        if not resumed:
            return reason
        # The beginning may have come from another source or version: once more, from the start.
    return reason


def _transfer(source: Source, part: Path, target: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "translate", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        response = urllib.request.urlopen(urllib.request.Request(source.url, headers=headers),
                                          timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise _Refused(f"HTTP {error.code} {error.reason}") from None
        part.unlink()
        raise _Cut("nothing is left to send, but the file is not whole") from None
    except (OSError, http.client.HTTPException) as error:
        raise _Refused(f"no connection ({_why(error)})") from None
    with response:
        sent = re.match(r"bytes (\d+)-", response.headers.get("Content-Range") or "")
        if response.status != 206:  # the whole file: without Range, or a server that ignores it
            have = 0
        elif sent is None or int(sent[1]) != have:
            part.unlink()
            raise _Cut("the server sent another part of the file than the one asked for")
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else source.size
        chunk = _receive(response, have, total)
        if have == 0 and chunk and (fault := _not_the_file(chunk, target)):
            raise _Refused(fault)  # before what an earlier attempt had fetched is overwritten
        with (open(part, "ab" if have else "wb") as file,
              tqdm(desc=target.name, total=total, initial=have, unit="B", unit_scale=True,
                   file=sys.stderr, disable=not sys.stderr.isatty()) as bar):
            while chunk:
                file.write(chunk)
                file.flush()
                have += len(chunk)
                bar.update(len(chunk))
                chunk = _receive(response, have, total)
    if total is not None and have < total:
        raise _Cut(_cut_off(have, total))


def _receive(response: http.client.HTTPResponse, have: int, total: int | None) -> bytes:
    try:
        return response.read1(1 << 16)
    except (OSError, http.client.HTTPException) as error:
        raise _Cut(f"{_cut_off(have, total)} ({_why(error)})") from None


def _cut_off(have: int, total: int | None) -> str:
    return f"cut off at byte {have:,} of {total:,}" if total else f"cut off at byte {have:,}"


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__


def _not_the_file(beginning: bytes, target: Path) -> str | None:
    magic = MAGIC.get(target.suffix, b"")
    if beginning and beginning[:len(magic)] == magic[:len(beginning)]:
        return None
    if beginning.lstrip().lower().startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        return "an HTML page instead of the file (a notice or a log-in page?)"
    return f"no {target.suffix} file: begins with {beginning[:8]!r}"


def _fault(path: Path, source: Source, target: Path) -> str | None:
    """What is wrong with a whole file; none if nothing is (or only warned of)."""
    data = path.read_bytes()
    if (fault := _not_the_file(data[:64], target)) is not None:
        return fault
    for what, got, expected in (("bytes", len(data), source.size),
                                ("sha256", hashlib.sha256(data).hexdigest(), source.sha256),
                                ("md5", hashlib.md5(data, usedforsecurity=False).hexdigest(),
                                 source.md5)):
        if expected is not None and got != expected:
            fault = f"wrong {what}: got {got}, expected {expected}"
            if source.strict:
                return fault
            print(f"warning: {source.url}: {fault}; using it all the same", file=sys.stderr)
    return None
