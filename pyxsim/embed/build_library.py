"""Compile libpyxsim for the Python that runs, with what pkg-config and CMake need to find it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyxsim import __version__
from pyxsim.errors import InputError
from pyxsim.results.table import Facts

PathLike = str | os.PathLike[str]

NAME = "libpyxsim.dylib" if sys.platform == "darwin" else "libpyxsim.so"
_PACKAGE = Path(__file__).parents[1]
_SOURCES = _PACKAGE / "embed" / "c"
_ADAPTERS = "compat/*/cpp/*.hh"  # to the interfaces of other simulators
_PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..

Name: pyxsim
Description: a network simulator that other simulators drive
Version: {version}
Cflags: -I${{prefix}}/include
Libs: -L${{prefix}}/lib -Wl,-rpath,${{prefix}}/lib -lpyxsim
"""
_CMAKE = """\
get_filename_component(_pyxsim_prefix "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
if(NOT TARGET pyxsim::pyxsim)
  add_library(pyxsim::pyxsim SHARED IMPORTED)
  set_target_properties(pyxsim::pyxsim PROPERTIES
    IMPORTED_LOCATION "${{_pyxsim_prefix}}/lib/{name}"
    INTERFACE_INCLUDE_DIRECTORIES "${{_pyxsim_prefix}}/include")
endif()
"""
_CMAKE_VERSION = """\
set(PACKAGE_VERSION "{version}")
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""


@dataclass(frozen=True, repr=False)
class BuiltLibrary(Facts):
    """A built library: its folder, its files below the folder, and the Python that it runs."""

    folder: str
    files: tuple[str, ...]
    python: str

    def json(self) -> dict[str, object]:
        """Return it as one JSON object."""
        return {"folder": self.folder, "files": list(self.files), "python": self.python}


def build_library(folder: PathLike = "pyxsim-library", *, compiler: str | None = None) -> BuiltLibrary:
    """Compile libpyxsim, the C library, for this Python (docs/library.md).

    Parameters
    ----------
    folder
        The folder of its `lib/` and `include/`, such as a prefix of CMake.
    compiler
        The C compiler; by default that of the environment (`CC`), or the one that built Python.

    Raises
    ------
    InputError
        Without a compiler or a shared library of Python, and for a folder that cannot be written.
    """
    place = Path(folder).absolute()
    texts = {
        "lib/pkgconfig/pyxsim.pc": _PKG_CONFIG.format(version=__version__),
        "lib/cmake/pyxsim/pyxsimConfig.cmake": _CMAKE.format(name=NAME),
        "lib/cmake/pyxsim/pyxsimConfigVersion.cmake": _CMAKE_VERSION.format(version=__version__),
    }
    headers = [_SOURCES / "pyxsim.h", *sorted(_PACKAGE.glob(_ADAPTERS))]
    try:
        for name, text in texts.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text, encoding="utf-8")
        (place / "include").mkdir(exist_ok=True)
        for header in headers:
            shutil.copyfile(header, place / "include" / header.name)
    except OSError as error:
        problem = f"cannot be written: {os.strerror(error.errno or 0)}"
        raise InputError(problem, file=os.fspath(folder), key="folder") from error
    _compile(_command(compiler, place / "lib" / NAME))
    files = (f"lib/{NAME}", *(f"include/{header.name}" for header in headers), *texts)
    return BuiltLibrary(os.fspath(folder), files, sys.executable)


def _command(compiler: str | None, target: Path) -> list[str]:
    """The compiler's command line. Raises InputError for a Python without a shared library."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        problem = f"{sys.executable} has no shared library, which libpyxsim runs"
        raise InputError(problem, allowed="a Python built with --enable-shared, such as those of distributions")
    folder, version = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDVERSION")
    words = shlex.split(compiler or os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    headers = {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}
    name = ["-install_name", f"@rpath/{NAME}"] if sys.platform == "darwin" else [f"-Wl,-soname,{NAME}"]
    return [
        *words,
        *("-shared", "-fPIC", "-O2", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-fvisibility=hidden", "-pthread"),
        *(f"-I{path}" for path in sorted(headers)),
        f'-DPYXSIM_PYTHON="{_quoted(sys.executable)}"',
        f'-DPYXSIM_FOLDER="{_quoted(str(_PACKAGE.parent))}"',
        str(_SOURCES / "libpyxsim.c"),
        *("-o", str(target), *name, f"-L{folder}", f"-Wl,-rpath,{folder}", f"-lpython{version}"),
    ]


def _quoted(text: str) -> str:
    """A text inside the quotes of a C string."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _compile(command: Sequence[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        problem = f"there is no C compiler '{command[0]}'"
        raise InputError(problem, key="compiler", allowed="an installed compiler; CC names it, too") from None
    except OSError as error:
        raise InputError(f"{command[0]} cannot be run: {error.strerror}", key="compiler") from None
    except subprocess.CalledProcessError as error:
        lines = [line for line in (error.stderr or "").splitlines() if "error" in line] or ["no reason given"]
        raise InputError(f"{command[0]} failed: {lines[0].strip()}", key="compiler") from None
