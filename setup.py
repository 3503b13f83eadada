"""What TOML cannot say of the build: the Cython core, in several kinds, and the shelves. The rest: pyproject.toml.

PYXSIM_SANITIZE=address,undefined or thread: with the sanitizers of the compiler (`make sanitize`)
PYXSIM_DEBUG=1    bounds checks, assertions and the engine's self-check (a build for tests, several times slower)
PYXSIM_COVERAGE=1 line tracing for coverage.py (several times slower)
PYXSIM_NATIVE=1   instructions of this machine's processor: not for wheels that travel
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import Cython
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext


def wanted(name: str) -> bool:
    """Whether an environment variable asks for something: set, and neither empty nor 0."""
    return os.environ.get(name, "") not in ("", "0")


DEBUG = wanted("PYXSIM_DEBUG")
NATIVE = wanted("PYXSIM_NATIVE")
COVERAGE = wanted("PYXSIM_COVERAGE")
SANITIZE = os.environ.get("PYXSIM_SANITIZE", "")  # "address,undefined" or "thread"
KIND = ("debug" if DEBUG else "coverage" if COVERAGE else "release") + ("-native" if NATIVE else "")
KIND += f"-{SANITIZE.replace(',', '-')}" if SANITIZE else ""
BASE = Path("build", KIND)  # each kind keeps its own C files and objects, so that none is taken for another

SHELVES = ("topologies", "routings", "patterns", "collectives", "readers")
SHELF_DATA = ["*.toml", "*.graphml"]  # the *.py of a shelf come along as modules of its folder

# Packages with Cython sources:
COMPILED = sorted({".".join(path.parent.parts) for path in Path("pyxsim").glob("*/**/*.p[yx][xd]")})

# What Cython's memory views are made of, once for all modules: in each of them it is half of what there is to compile.
SHARED = "pyxsim._views"

MACROS = [("PYXSIM_DEBUG", "1")] if DEBUG else [("CYTHON_WITHOUT_ASSERTIONS", "1")]
if COVERAGE:
    MACROS += [("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1")]
FLAGS = ["-O1", "-g1"] if DEBUG else ["-O1"] if COVERAGE else ["-O3"]
if NATIVE:
    FLAGS.append("-march=native")
LINK_FLAGS = []
if SANITIZE:
    FLAGS = ["-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"]
    LINK_FLAGS = [f"-fsanitize={SANITIZE}"]
# Python's own flags ask for the numbers of lines, which take a quarter of the compiler's time and nine tenths of the
# files; a debug build has only the numbers (-g1), no variables. Who measures a release line by line, or looks at
# variables, says so: CFLAGS=-g.
if "-g" in os.environ.get("CFLAGS", "").split():
    FLAGS.append("-g")
elif not DEBUG and not SANITIZE:
    FLAGS.append("-g0")
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": DEBUG,
    "embedsignature": True,
    "linetrace": COVERAGE,
}


def recipe() -> tuple[str, bool]:
    """A file that holds how the modules of this kind are built, and whether that has just changed.

    A compiler looks at dates only, and so would keep a module that other flags have made as newer than its source. The
    file is a dependency of every module and is written anew when the recipe differs.
    """
    file = BASE / "recipe.txt"
    shell = [os.environ.get(name, "") for name in ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS")]
    text = repr((KIND, MACROS, FLAGS, sorted(DIRECTIVES.items()), SHARED, Cython.__version__, shell)) + "\n"
    changed = not file.is_file() or file.read_text(encoding="utf-8") != text
    if changed:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return str(file), changed


class Modules(build_ext):
    """Compiles what has changed, and no more, also where pip installs a tree in place (it would build in a folder that
    it throws away, and so compile all modules with every extra that is added)."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.inplace or self.editable_mode:
            self.build_lib, self.build_temp = str(BASE / "inplace" / "lib"), str(BASE / "inplace" / "temp")

    def run(self) -> None:
        built = {Path(self.build_lib, self.get_ext_filename(ext.name)) for ext in self.extensions}
        for left in set(Path(self.build_lib).rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}")) - built:
            left.unlink()  # its source is gone
        super().run()

    def copy_extensions_to_source(self) -> None:
        self.force = True  # what another kind of build has left in the tree may be younger
        super().copy_extensions_to_source()


def extensions(recipe_file: str) -> list[Extension]:
    """One extension module for each .pyx of the package."""
    headers = sorted(str(path) for path in Path("pyxsim").rglob("*.h"))
    sources = {".".join(path.with_suffix("").parts): [str(path)] for path in sorted(Path("pyxsim").rglob("*.pyx"))}
    return [
        Extension(
            name,
            files,
            include_dirs=["."],  # of headers, by their path in the checkout
            define_macros=MACROS,
            extra_compile_args=FLAGS,
            extra_link_args=LINK_FLAGS,
            depends=[recipe_file, *headers],
        )
        for name, files in {**sources, SHARED: []}.items()  # Cython writes the source of the shared one
    ]


def build() -> None:
    recipe_file, changed = recipe()
    setup(
        packages=[
            *find_packages(include=["pyxsim", "pyxsim.*"]),
            "pyxsim.models.data",
            "pyxsim.embed.c",
            "pyxsim.compat.astra.cpp",
            *(f"pyxsim._library.{shelf}" for shelf in SHELVES),
        ],
        package_dir={f"pyxsim._library.{shelf}": shelf for shelf in SHELVES},
        package_data={
            "pyxsim": ["py.typed", "*.pxd", "*.pyx", "*.pyi", "*.h"],
            "pyxsim.embed.c": ["*.c", "*.h"],
            "pyxsim.compat.astra.cpp": ["*.hh"],
            "pyxsim.models": ["*.csv"],
            "pyxsim.reports.html": ["*.jinja", "*.css", "*.js"],
            "pyxsim.models.data": ["*.csv", "*.toml"],
            **{room: ["*.pxd", "*.pyx", "*.pyi", "*.h"] for room in COMPILED},
            **{f"pyxsim._library.{shelf}": SHELF_DATA for shelf in SHELVES},
        },
        exclude_package_data={room: ["*.c"] for room in COMPILED},
        cmdclass={"build_ext": Modules},
        options={"build": {"build_base": str(BASE)}, "build_ext": {"parallel": os.cpu_count()}},
        ext_modules=cythonize(
            extensions(recipe_file),
            build_dir=str(BASE / "cython"),
            compiler_directives=DIRECTIVES,
            force=changed,
            quiet=True,
            nthreads=os.cpu_count() or 1,
            shared_utility_qualified_name=SHARED,
        ),
    )


if __name__ == "__main__":  # Cython's processes may import this file once more
    build()
