"""Where a live server listens: the file of a Unix socket, or a port."""

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Address = str | os.PathLike[str] | int | tuple[str, int]
BACKLOG = 128
LIVE_S = 1.0  # how long somebody on a socket has to take a call before it is said to be in use
LOCK_S = 1.0


class Listener:
    """A socket that listens. `address`: the path, or (host, port), as it came out."""

    def __init__(self, address: Address) -> None:
        self.path: str | None = None
        self._inode = 0
        if isinstance(address, bool) or not isinstance(address, (str, os.PathLike, int, tuple)):
            wanted = "a path, a port, or (host, port) is wanted"
            raise TypeError(f"{wanted}, not {type(address).__name__}")
        if isinstance(address, (str, os.PathLike)):
            self._listen_on_path(os.fspath(address))
        else:
            self._listen_on_port(*check_port(("127.0.0.1", address) if isinstance(address, int) else address))

    def _listen_on_port(self, host: str, port: int) -> None:
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
            self.socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), f"{host}:{port}") from None
        self.address: str | tuple[str, int] = (host, self.socket.getsockname()[1])

    def _listen_on_path(self, path: str) -> None:
        if not isinstance(path, str):
            raise TypeError("the path of a socket must be a str")
        if not path or "\0" in path:
            raise ValueError(f"no path of a socket: {path!r}")
        if not hasattr(socket, "AF_UNIX"):
            raise OSError(errno.EAFNOSUPPORT, "there are no Unix sockets here: give a port", path)
        self.path = os.path.abspath(path)  # the program may change its directory before it closes
        self.address = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with directory_locked(os.path.dirname(self.path)):
                remove_stale(path)
                self.socket.bind(path)
                # Before it listens, so that nobody else comes in between.
                os.chmod(path, 0o600)
                self._inode = os.lstat(path).st_ino
                self.socket.listen(BACKLOG)
        except OSError as error:
            self.socket.close()
            if error.errno is None:  # Python's own: more than fits into the system's structure
                raise ValueError(f"the path of a socket has about 100 bytes at most: {path}") from None
            raise type(error)(error.errno, error.strerror, path) from None

    def remove_file(self) -> None:
        """Takes the socket's file away, if it is still this one's. While it still listens: as long as it does, nobody
        takes the file for a stale one and puts another there."""
        if self.path is not None:
            with contextlib.suppress(OSError):
                if os.lstat(self.path).st_ino == self._inode:
                    os.unlink(self.path)


def check_port(address: tuple[str, int]) -> tuple[str, int]:
    """(host, port), if that is what it is."""
    is_port = len(address) == 2 and isinstance(address[1], int) and not isinstance(address[1], bool)
    if not is_port or not isinstance(address[0], str):
        raise TypeError(f"(host, port) is wanted, not {address!r}")
    host, port = address
    if not host:
        raise ValueError("a host is wanted: 0.0.0.0 for all addresses of this machine")
    if not 0 <= port <= 65535:
        raise ValueError(f"a port is from 0 to 65535, not {port}")
    return host, port


def remove_stale(path: str) -> None:
    """Removes a socket on which nobody listens. OSError: there is something else, or somebody answers."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "the file exists and is not a socket", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(LIVE_S)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except FileNotFoundError:
            return
        except (BlockingIOError, TimeoutError):
            pass  # somebody is there, and busy
    raise OSError(errno.EADDRINUSE, "another program answers on this socket", path)


@contextlib.contextmanager
def directory_locked(directory: str) -> Iterator[None]:
    """Two programs that find the same stale socket at once do not remove each other's new one. Who holds the lock
    of the directory for long is none of ours, and is not waited for."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a directory that may not be read is locked by nobody
            descriptor = os.open(directory, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            wait_for_lock(descriptor)
        yield


def wait_for_lock(descriptor: int) -> None:
    """Locks it until it is closed, if that is possible before long."""
    if fcntl is None:
        return
    give_up = time.monotonic() + LOCK_S
    while time.monotonic() < give_up:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.01)
