"""The listening socket of a live server: a Unix socket with its file, or a port."""

import contextlib
import errno
import os
import socket
import stat

Address = str | os.PathLike[str] | int | tuple[str, int]
BACKLOG = 128
PROBE_S = 1.0  # a socket that does not accept a connection in this time counts as in use


class Listener:
    """A listening socket. address: the path, or (host, port) with the actual port."""

    def __init__(self, address: Address) -> None:
        self.path: str | None = None
        self._inode = 0
        if isinstance(address, bool) or not isinstance(address, (str, os.PathLike, int, tuple)):
            raise TypeError(f"address must be a path, a port, or (host, port), got {type(address).__name__}")
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
            raise ValueError(f"the path of a socket must not be empty or contain null characters, got {path!r}")
        if not hasattr(socket, "AF_UNIX"):
            raise OSError(errno.EAFNOSUPPORT, "this system has no Unix sockets: use a port", path)
        self.path = os.path.abspath(path)  # the program can change its directory before close()
        self.address = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            remove_stale(path)
            self.socket.bind(path)
            os.chmod(path, 0o600)  # before listen(), so that no other user can connect in between
            self._inode = os.lstat(path).st_ino
            self.socket.listen(BACKLOG)
        except OSError as error:
            self.socket.close()
            if error.errno is None:  # Python's own check: the path does not fit into the system's structure
                raise ValueError(f"the path of a socket must be shorter than about 100 bytes, got {path}") from None
            raise type(error)(error.errno, error.strerror, path) from None

    def remove_file(self) -> None:
        """Remove the socket's file if it is still this socket's.

        Call this while the socket listens: until then no other server takes the file for a stale one and replaces it.
        """
        if self.path is not None:
            with contextlib.suppress(OSError):
                if os.lstat(self.path).st_ino == self._inode:
                    os.unlink(self.path)


def check_port(address: tuple[str, int]) -> tuple[str, int]:
    """Return (host, port), or raise TypeError or ValueError."""
    is_port = len(address) == 2 and isinstance(address[1], int) and not isinstance(address[1], bool)
    if not is_port or not isinstance(address[0], str):
        raise TypeError(f"address must be (host, port), got {address!r}")
    host, port = address
    if not host:
        raise ValueError("the host must not be empty: use 0.0.0.0 for all addresses of this machine")
    if not 0 <= port <= 65535:
        raise ValueError(f"a port must be from 0 to 65535, got {port}")
    return host, port


def remove_stale(path: str) -> None:
    """Remove the file of a socket on which no program listens. Raise OSError for any other file.

    Two programs that replace one stale file at the same moment can remove each other's new one.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "the file exists and is not a socket", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except FileNotFoundError:
            return
        except (BlockingIOError, TimeoutError):
            pass  # a program listens, but is busy
    raise OSError(errno.EADDRINUSE, "another program listens on this socket", path)
