"""Take from the harness, and from it alone, what the system that STAND_IN_SYSTEM names (Windows, Darwin) does not have.
Python imports this module first of all."""

import builtins
import ctypes
import fcntl
import os
import platform
import sys
import types

_SYSTEM = os.environ["STAND_IN_SYSTEM"]
_FUNCTIONS = ["sched_getaffinity", "sched_setaffinity"]
_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"} if _SYSTEM == "Windows" else set()
if _SYSTEM == "Windows":
    _FUNCTIONS += ["geteuid", "getgid", "getuid", "killpg", "nice", "setsid", "statvfs", "sysconf", "uname"]
_import, _load = builtins.__import__, ctypes.CDLL.__init__


def _locking(descriptor: int, mode: int, count: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(13, "Permission denied") from None


_msvcrt = types.ModuleType("msvcrt")
_msvcrt.locking, _msvcrt.LK_NBLCK = _locking, 2  # type: ignore[attr-defined]


def _is_of_harness(names: object) -> bool:
    return isinstance(names, dict) and str(names.get("__name__")).startswith("harness")


def _import_there(name: str, names: object = None, *more: object, **named: object) -> object:
    if _is_of_harness(names):
        if name in _MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name == "msvcrt":
            return _msvcrt
    return _import(name, names, *more, **named)


def _absent(name: str) -> None:
    function = getattr(os, name)

    def missing(*arguments: object) -> object:
        if _is_of_harness(sys._getframe(1).f_globals):
            raise AttributeError(f"module 'os' has no attribute {name!r}")
        return function(*arguments)

    setattr(os, name, missing)


def _load_there(library: ctypes.CDLL, name: object, *more: object, **options: object) -> None:
    if name is None and _SYSTEM == "Windows" and _is_of_harness(sys._getframe(1).f_globals):
        raise TypeError("argument of type 'NoneType' is not iterable")
    _load(library, name, *more, **options)


def _system() -> str:
    return _SYSTEM if _is_of_harness(sys._getframe(1).f_globals) else _system_here()


_system_here = platform.system
platform.system = _system
builtins.__import__ = _import_there  # type: ignore[assignment]
ctypes.CDLL.__init__ = _load_there  # type: ignore[method-assign]
if _SYSTEM == "Windows":
    del os.fork
else:
    import psutil

    del psutil.Process.cpu_affinity
for _name in _FUNCTIONS:
    _absent(_name)
