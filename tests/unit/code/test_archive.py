"""One content has one archive, and nothing hostile gets into one."""

from __future__ import annotations

import io
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from schedulearn.scheduler.code.archive import Entry, Kind, link_stays_inside, read_entries, unpack, write_archive
from schedulearn.scheduler.errors import InvalidError


def file(path: str, content: bytes = b"x", *, executable: bool = False) -> Entry:
    return Entry(path, Kind.FILE, len(content), executable, open=lambda: io.BytesIO(content))


def pack(entries: list[Entry], **bounds: int) -> tuple[str, bytes]:
    target = io.BytesIO()
    return write_archive(entries, target, **bounds).digest, target.getvalue()


def tar_of(add: Callable[[tarfile.TarFile], None], format: int = tarfile.PAX_FORMAT) -> io.BytesIO:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=format) as tar:
        add(tar)
    target.seek(0)
    return target


def member(name: str, type: bytes = tarfile.REGTYPE, content: bytes = b"", **fields: object) -> Callable[..., None]:
    info = tarfile.TarInfo(name)
    info.type, info.size = type, len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return lambda tar: tar.addfile(info, io.BytesIO(content))


CONTENT = [file("train.py", b"print(1)"), file("run.sh", b"#!/bin/sh", executable=True), Entry("empty", Kind.FOLDER),
           Entry("latest", Kind.LINK, target="train.py"),
           file("deep/" + "n" * 200 + ".txt", b"long"), file("ünïcode/ä.py", b"ok")]  # fmt: skip


def test_the_order_in_which_files_are_found_makes_no_difference() -> None:
    digest, archive = pack(CONTENT)
    assert pack(random.Random(1).sample(CONTENT, len(CONTENT))) == (digest, archive)
    assert digest != pack([*CONTENT, file("one.more")])[0]
    assert digest != pack([*CONTENT[1:], file("train.py", b"print(2)")])[0]
    assert digest != pack([*CONTENT[1:], file("train.py", b"print(1)", executable=True)])[0]


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_whoever_made_the_tar_file_its_content_has_the_same_archive(tmp_path: Path, format: int) -> None:
    digest, archive = pack(CONTENT)
    (tmp_path / "a.tar").write_bytes(archive)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    unpack(tmp_path / "a.tar", folder)
    os.utime(folder / "train.py", (1, 2.5))
    theirs = tar_of(lambda tar: tar.add(folder, "."), format)
    # Theirs has an entry for each folder: ours too, then.
    with_folders = [*CONTENT, Entry("deep", Kind.FOLDER), Entry("ünïcode", Kind.FOLDER)]
    assert pack(read_entries(theirs)) == pack(with_folders)
    assert pack(read_entries(io.BytesIO(archive))) == (digest, archive)


def test_what_is_unpacked_is_what_was_packed(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(pack(CONTENT)[1])
    folder = tmp_path / "unpacked"
    folder.mkdir()
    unpack(tmp_path / "a.tar", folder)
    assert (folder / "train.py").read_bytes() == b"print(1)"
    assert (folder / "latest").readlink() == Path("train.py")
    assert os.access(folder / "run.sh", os.X_OK)
    assert not (folder / "train.py").stat().st_mode & 0o111
    assert (folder / "empty").is_dir()
    assert sorted(path.name for path in folder.iterdir()) == [
        "deep",
        "empty",
        "latest",
        "run.sh",
        "train.py",
        "ünïcode",
    ]


@pytest.mark.parametrize(
    ("add", "told"),
    [
        (member("../outside"), "must be below the archive's folder"),
        (member("a/../../outside"), "must be below the archive's folder"),
        (member("/etc/passwd"), "must be below the archive's folder"),
        (member("a//b"), "must be below the archive's folder"),
        (member("x" * 300), "too long"),
        (member("a/" * 600 + "b"), "too long"),
        (member("link", tarfile.SYMTYPE, linkname="/etc"), "leads out of the archive"),
        (member("link", tarfile.SYMTYPE, linkname="../x"), "leads out of the archive"),
        (member("a/b/link", tarfile.SYMTYPE, linkname="../../../x"), "leads out of the archive"),
        (member("hard", tarfile.LNKTYPE, linkname="/etc/passwd"), "a hard link"),
        (member("null", tarfile.CHRTYPE, devmajor=1, devminor=3), "a device"),
        (member("disk", tarfile.BLKTYPE), "a device"),
        (member("pipe", tarfile.FIFOTYPE), "a device"),
        (lambda tar: (member("twice")(tar), member("twice")(tar)), "twice"),
        (lambda tar: (member("d", tarfile.SYMTYPE, linkname=".")(tar), member("d/x")(tar)), "is a link"),
        (lambda tar: (member("d/x")(tar), member("d")(tar)), "is a file"),
        (lambda tar: [member(f"f{n}")(tar) for n in range(102)], "more than 100 files"),
        (member("big", content=bytes(2000)), "larger than 1000 bytes"),
        (member("latin-\udce4"), "not UTF-8"),
    ],
)  # fmt: skip
def test_what_is_hostile_or_too_much_is_refused(add: Callable[[tarfile.TarFile], None], told: str) -> None:
    with pytest.raises(InvalidError, match=told):
        pack(read_entries(tar_of(add), 100), max_bytes=1000, max_files=100)


def test_a_header_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(InvalidError, match="header of more than 1 MiB"):
        read_entries(tar_of(member("x", tarfile.XHDTYPE, content=bytes(2 << 20))))


def test_a_size_below_zero_ends() -> None:
    """A record that says so sends readers back to where they came from."""
    record = b"16 size=-100000\n"
    pax = tar_of(
        lambda tar: (member("x", tarfile.XHDTYPE, content=record)(tar), member("f")(tar)), tarfile.USTAR_FORMAT
    )
    with pytest.raises(InvalidError):
        read_entries(pax)


@pytest.mark.parametrize("cut", [1, 511, 512, 513, 1024, 1500, 2048])
def test_an_archive_that_is_cut_off_is_refused(cut: int) -> None:
    archive = pack([file("a", bytes(600)), file("b", b"y")])[1]
    with pytest.raises(InvalidError):
        read_entries(io.BytesIO(archive[:cut]))


@pytest.mark.parametrize("junk", [b"", b"no tar file", b"\xff" * 5000, b"PK\x03\x04" + bytes(1000)])
def test_what_is_no_tar_file_is_refused(junk: bytes) -> None:
    with pytest.raises(InvalidError):
        read_entries(io.BytesIO(junk))


def test_a_file_that_shrinks_while_it_is_read_is_told() -> None:
    entry = Entry("log", Kind.FILE, 100, open=lambda: io.BytesIO(b"short"))
    with pytest.raises(InvalidError, match="log changed while it was read"):
        pack([entry])


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        ("a", "b", True), ("a/b", "../c", True), ("a/b", ".", True), ("a/b/c", "../../x/y", True), ("a", "./b", True),
        ("a", "..", False), ("a/b", "../..", False), ("a", "/b", False), ("a", "", False),
        ("p/q/l", "m/../../../x", False), ("a", "x/..", False), ("a/b", "./../../c", False),
    ],
)  # fmt: skip
def test_links_stay_inside(path: str, target: str, inside: bool) -> None:
    assert link_stays_inside(path, target) is inside
