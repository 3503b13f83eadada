"""What TOML cannot say of the build: the Cython core, in several kinds, and the two shelves. The rest: pyproject.toml.

PYXSIM_DEBUG=1    bounds checks, assertions and the engine's self-check (a build for tests, several times slower)
PYXSIM_NATIVE=1   instructions of this machine's processor: not for wheels that travel
"""

from __future__ import annotations

import os
from pathlib import Path

import Cython
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup


def wanted(name: str) -> bool:
    """Whether an environment variable asks for something: set, and neither empty nor 0."""
    return os.environ.get(name, "") not in ("", "0")


DEBUG = wanted("PYXSIM_DEBUG")
NATIVE = wanted("PYXSIM_NATIVE")
KIND = ("debug" if DEBUG else "release") + ("-native" if NATIVE else "")
BASE = Path("build", KIND)  # each kind keeps its own C files and objects, so that none is taken for another

SHELVES = ("topologies", "collectives")
SHELF_DATA = ["*.toml", "*.graphml"]  # the *.py of a shelf come along as modules of its folder

# Rooms with Cython in them:
COMPILED = (
    "pyxsim.chakra",
    "pyxsim.core",
    "pyxsim.analytical",
    "pyxsim.system",
    "pyxsim.system.astra",
    "pyxsim.system.memory",
    "pyxsim.workload",
)

MACROS = [("PYXSIM_DEBUG", "1")] if DEBUG else [("CYTHON_WITHOUT_ASSERTIONS", "1")]
FLAGS = ["-O1", "-g"] if DEBUG else ["-O3"]
if NATIVE:
    FLAGS.append("-march=native")
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": DEBUG,
    "embedsignature": True,
}


def recipe() -> tuple[str, bool]:
    """A file that holds how the modules in the tree were built, and whether that has just changed.

    A compiler looks at dates only, and so would keep a debug module as newer than its source when a release
    is asked for. The file is a dependency of every module and is written anew when the recipe differs.
    """
    file = Path("build", "recipe.txt")
    text = repr((KIND, MACROS, FLAGS, sorted(DIRECTIVES.items()), Cython.__version__)) + "\n"
    changed = not file.is_file() or file.read_text(encoding="utf-8") != text
    if changed:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return str(file), changed


def extensions(recipe_file: str) -> list[Extension]:
    """One extension module for each .pyx of the package."""
    headers = sorted(str(path) for path in Path("pyxsim").rglob("*.h"))
    return [
        Extension(
            ".".join(path.with_suffix("").parts),
            [str(path)],
            define_macros=MACROS,
            extra_compile_args=FLAGS,
            depends=[recipe_file, *headers],
        )
        for path in sorted(Path("pyxsim").rglob("*.pyx"))
    ]


recipe_file, changed = recipe()
setup(
    packages=[
        *find_packages(include=["pyxsim", "pyxsim.*"]),
        "pyxsim.models.data",
        *(f"pyxsim._library.{shelf}" for shelf in SHELVES),
    ],
    package_dir={f"pyxsim._library.{shelf}": shelf for shelf in SHELVES},
    package_data={
        "pyxsim": ["py.typed", "*.pxd"],
        "pyxsim.models": ["*.csv"],
        "pyxsim.report.page": ["*.jinja", "*.css", "*.js"],
        "pyxsim.models.data": ["*.csv", "*.toml"],
        **{room: ["*.pxd", "*.pyx", "*.pyi", "*.h"] for room in COMPILED},
        **{f"pyxsim._library.{shelf}": SHELF_DATA for shelf in SHELVES},
    },
    exclude_package_data={"": ["*.c"]},
    options={"build": {"build_base": str(BASE)}, "build_ext": {"parallel": os.cpu_count()}},
    ext_modules=cythonize(
        extensions(recipe_file),
        build_dir=str(BASE / "cython"),
        compiler_directives=DIRECTIVES,
        force=changed,
        quiet=True,
    ),
)
