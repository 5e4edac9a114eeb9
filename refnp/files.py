"""Files that are written whole or not at all, beside other programs that write them too; and parts of pages.

What is written goes to a file beside, which is locked and then takes the name (rename, which is atomic). A lock ends
with its process, however it ends: what a process that was killed has left can be told from what another one is
writing, in other containers and on other machines as well, where process numbers say nothing. Locks are those of
`flock`; where there is none (Windows), nothing is cleaned up, and no second writer is noticed.
"""

import contextlib
import ctypes
import os
import secrets
import stat
from collections.abc import Iterator
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def write_whole(path: str | os.PathLike, content: bytes | memoryview, *, synced: bool = False) -> None:
    """Write a file whole or not at all; what stood there stays until then.

    The target of a link is written, and a device or a pipe is written into. A file keeps its mode, a new one has that
    of the umask. With `synced` the content is brought to the disk before the name, and the name before the return.
    What killed processes have left beside it, NAME.….partial, is deleted. Raises OSError, PermissionError for a file
    that may not be written though its folder may.
    """
    path = os.path.realpath(path)
    mode = mode_of(path)
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as device:
            device.write(content)
        return
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(13, "Permission denied", path)
    remove_left_over(path)
    while not written_beside(path, content, mode, synced):
        pass
    if synced:
        sync_folder(os.path.dirname(path))


def written_beside(path: str, content: bytes | memoryview, mode: int | None, synced: bool) -> bool:
    """Write a new file, locked, and give it the name; False if it was taken for a left one before it was locked."""
    partial = f"{path}.{secrets.token_hex(4)}.partial"
    try:
        with open(partial, "xb") as file:
            if not has_lock(file, partial):
                return False
            file.write(content)
            file.flush()
            if synced:
                os.fsync(file.fileno())
            if mode is not None:
                os.chmod(partial, stat.S_IMODE(mode))
            os.replace(partial, path)
            return True
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


@contextlib.contextmanager
def held(path: str | os.PathLike) -> Iterator[None]:
    """Be the only one that writes `path`, by a lock on a file beside it, NAME.lock, which goes at the end.

    Raises BlockingIOError, which names the process if it can, where another one holds it. Where no lock can be had
    nothing is held.
    """
    lock = f"{os.path.realpath(path)}.lock"
    file = None
    with contextlib.suppress(OSError):  # whoever cannot write here is told so when the file is written
        file = open(lock, "a+b")  # noqa: SIM115  # closed below, which ends the lock
    if file is None:
        yield
        return
    with file:
        if not has_lock(file, lock):
            file.seek(0)
            owner = file.read(20).decode(errors="replace").strip() or "unknown"
            why = f"{os.fspath(path)} is being written by another run (process {owner}); stop it, or name another file"
            raise BlockingIOError(11, why)
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.unlink(lock)


def exchanged(one: str | os.PathLike, other: str | os.PathLike) -> bool:
    """Give two files or folders each other's name in one step; False where the system cannot (all but Linux)."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here, swap = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    return rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0


def mode_of(path: str) -> int | None:
    """What the system says of a path; None if nothing is there."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def has_locks() -> bool:
    """Whether the system has locks: a file without one then belongs to no process."""
    return fcntl is not None


def has_lock(file: IO[bytes], path: str) -> bool:
    """Lock an open file, if no other process has, and if `path` is still its name."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        return False


def remove_left_over(path: str) -> None:
    """Delete partial files of this name that no process has locked."""
    if not has_locks():
        return
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):  # a folder that cannot be read is no reason not to write
        for found in os.listdir(folder):
            middle = found.removeprefix(f"{name}.").removesuffix(".partial")
            if found == f"{name}.{middle}.partial":
                left = os.path.join(folder, found)
                with contextlib.suppress(OSError), open(left, "rb") as file:
                    if has_lock(file, left):
                        os.unlink(left)


def sync_folder(folder: str) -> None:
    """Bring the names in a folder to the disk, where folders can be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---- what a program writes into a page


def between_marks(page: str, name: str) -> tuple[str, str, str]:
    """What stands before, between and after `<!-- NAME: begin -->` and `<!-- NAME: end -->`, marks with the outer ones.

    Raises ValueError unless the page has both, once each.
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"the page needs the lines {begin.strip()} and {end}, once each")
    before, rest = page.split(begin)
    content, after = rest.split(end)
    return before + begin, content, end + after


def renewed(page: str, name: str, content: str) -> str:
    """The page with other content between its marks of this name; errors as `between_marks`."""
    before, _, after = between_marks(page, name)
    return before + content + after
