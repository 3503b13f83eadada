"""libpyxsim: built as a user builds it, found with pkg-config and CMake, called from C, C++, threads and ctypes."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.library import client, of_backend, of_client
from pyxsim.embed.build_library import NAME, build_library
from pyxsim.embed.simulator import Simulator
from pyxsim.errors import InputError
from tests.examples import part_of

CC, CXX = shutil.which("cc"), shutil.which("c++")
EXAMPLES = Path(__file__).parents[2] / "examples"
RING = json.dumps({"network": {"topology": "ring", "shape": [4]}})
pytestmark = [
    pytest.mark.skipif(CC is None, reason="there is no C compiler"),
    pytest.mark.skipif(not sysconfig.get_config_var("Py_ENABLE_SHARED"), reason="Python has no shared library"),
    pytest.mark.skipif(any("san.so" in name for name in os.environ.get("LD_PRELOAD", "").split()), reason="sanitizer"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("library") / "with space"
    built = build_library(place)
    assert all((place / name).is_file() for name in built.files)
    return place


def run(command: list[str | Path], **options: object) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**clean, **options})
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def compiled(compiler: str, source: Path, folder: Path, target: Path, *flags: str) -> Path:
    include, lib = folder / "include", folder / "lib"
    flags = ("-Wall", "-Wextra", "-Werror", *flags, f"-I{include}", f"-L{lib}", f"-Wl,-rpath,{lib}")
    run([compiler, source, *flags, "-lpyxsim", "-pthread", "-o", target])
    return target


def test_c_client_is_the_closed_form_of_a_ring(folder: Path, tmp_path: Path) -> None:
    said = run([compiled(CC, EXAMPLES / "ring_all_reduce.c", folder, tmp_path / "ring")]).split()
    assert said[1] == said[5] == "153790"  # 14 * (500 + 2**20 // 100)


@pytest.mark.skipif(CXX is None, reason="there is no C++ compiler")
def test_cpp_client_reaches_the_bound_of_the_last_link(folder: Path, tmp_path: Path) -> None:
    said = run([compiled(CXX, EXAMPLES / "incast.cpp", folder, tmp_path / "incast", "-std=c++17")])
    assert "busiest link" in said


def test_threads(folder: Path, tmp_path: Path) -> None:
    source = Path(__file__).with_name("threads.c")
    assert run([compiled(CC, source, folder, tmp_path / "threads", "-D_POSIX_C_SOURCE=200809L")]) == "ok\n"


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="there is no pkg-config")
def test_pkg_config_finds_it(folder: Path) -> None:
    where = {"PKG_CONFIG_PATH": str(folder / "lib/pkgconfig")}
    flags = run(["pkg-config", "--cflags", "--libs", "pyxsim"], **where)
    assert "-lpyxsim" in flags
    assert "include" in flags
    assert run(["pkg-config", "--modversion", "pyxsim"], **where).strip()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
def test_cmake_finds_it(folder: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "ring_all_reduce.c", tmp_path)
    lines = ["cmake_minimum_required(VERSION 3.13)", "project(client C)", "find_package(pyxsim 0.1 REQUIRED)"]
    lines += ["add_executable(client ring_all_reduce.c)", "target_link_libraries(client pyxsim::pyxsim)"]
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines))
    run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={folder}"])
    run(["cmake", "--build", tmp_path / "build"])
    assert "closed form 153790" in run([tmp_path / "build" / "client"])


def test_client_of_the_benchmark_ends_with_the_backend(tmp_path: Path) -> None:
    command = client(tmp_path)
    for backend in ("analytical", "packet"):
        ends = {of_client(command, mode, backend, 4, 5)[1] for mode in ("chain", "match", "array")}
        assert ends == {of_backend(backend, 4, 5)[1]}


# -- inside a process that is Python already --

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
LONG, POINTER = ctypes.c_int64, ctypes.c_void_p


class Link(ctypes.Structure):
    _fields_ = (("flits", LONG), ("bytes", LONG), ("busy", ctypes.c_double))


@pytest.fixture(scope="module")
def library(folder: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(folder / "lib" / NAME))
    for name in ("now", "npus", "link_count", "messages_in_flight", "receptions_waiting"):
        function = getattr(loaded, f"pyxsim_{name}")
        function.argtypes, function.restype = (POINTER,), LONG
    loaded.pyxsim_error.restype = loaded.pyxsim_link_name.restype = ctypes.c_char_p
    loaded.pyxsim_link_name.argtypes = loaded.pyxsim_advance_until.argtypes = (POINTER, LONG)
    loaded.pyxsim_run.argtypes = loaded.pyxsim_stop.argtypes = loaded.pyxsim_destroy.argtypes = (POINTER,)
    loaded.pyxsim_send_at.argtypes = (POINTER, LONG, LONG, LONG, LONG, LONG, CALLBACK, POINTER)
    loaded.pyxsim_send.argtypes = loaded.pyxsim_recv.argtypes = (POINTER, LONG, LONG, LONG, LONG, CALLBACK, POINTER)
    loaded.pyxsim_schedule.argtypes = (POINTER, LONG, CALLBACK, POINTER)
    loaded.pyxsim_link_statistics.argtypes = (POINTER, POINTER, LONG)
    loaded.pyxsim_submit.argtypes = (POINTER, POINTER, LONG, POINTER)
    loaded.pyxsim_take_arrivals.argtypes = (POINTER, POINTER, LONG, POINTER)
    return loaded


def created(library: ctypes.CDLL, text: str, backend: str | None = None) -> POINTER:
    made = POINTER()
    code = library.pyxsim_create(text.encode(), backend.encode() if backend else None, ctypes.byref(made))
    assert code == 0, library.pyxsim_error()
    return made


@pytest.fixture
def sim(library: ctypes.CDLL) -> Iterator[POINTER]:
    made = created(library, RING)
    yield made
    library.pyxsim_destroy(made)


NOTHING = CALLBACK()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda lib, sim: lib.pyxsim_send(sim, 0, 4, 1, 0, NOTHING, None), "there is no NPU 4; allowed: NPUs 0 to 3"),
        (lambda lib, sim: lib.pyxsim_send(sim, 2**40, 1, 1, 0, NOTHING, None), "there is no NPU 1099511627776"),
        (lambda lib, sim: lib.pyxsim_recv(sim, 1, 1, 1, 0, NOTHING, None), "NPU 1 cannot send a message to itself"),
        (lambda lib, sim: lib.pyxsim_recv(sim, 0, 1, 1, -(2**63), NOTHING, None), "no message has this tag"),
        (lambda lib, sim: lib.pyxsim_send(sim, 0, 1, 0, 0, NOTHING, None), "a message of 0 bytes is not possible"),
        (lambda lib, sim: lib.pyxsim_send_at(sim, -7, 0, 1, 1, 0, NOTHING, None), "cycle -7 is in the past"),
        (lambda lib, sim: lib.pyxsim_schedule(sim, -1, NOTHING, None), "the callback is NULL"),
        (lambda lib, sim: lib.pyxsim_advance_until(sim, -1), "a cycle is 0 or more"),
        (lambda lib, sim: lib.pyxsim_link_statistics(sim, None, 3), "there are not so many links"),
        (lambda lib, sim: lib.pyxsim_take_arrivals(sim, None, 3, None), "there is no space for arrivals"),
        (lambda lib, sim: lib.pyxsim_create(None, None, None), "an argument is NULL"),
    ],
)
def test_faults_have_a_code_and_a_text(library: ctypes.CDLL, sim: POINTER, call: object, text: str) -> None:
    assert call(library, sim) == 2
    assert library.pyxsim_error().decode().startswith(text)


@pytest.mark.parametrize(
    ("settings_text", "backend", "text"),
    [
        ("{", None, "JSON: not valid JSON"),
        ("[network", None, "TOML:1: not valid TOML"),
        ('network = { topology = "rings" }', None, "network.topology: "),
        (RING, "paket", "backend: unknown"),
    ],
)
def test_faults_of_settings(library: ctypes.CDLL, settings_text: str, backend: str | None, text: str) -> None:
    made = POINTER()
    chosen = backend.encode() if backend else None
    assert library.pyxsim_create(settings_text.encode(), chosen, ctypes.byref(made)) == 2
    assert library.pyxsim_error().decode().startswith(text), library.pyxsim_error()
    assert not made.value


def test_file(library: ctypes.CDLL, tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text(RING)
    made = POINTER()
    assert library.pyxsim_create_from_file(str(tmp_path / "net.json").encode(), b"flow", ctypes.byref(made)) == 0
    assert library.pyxsim_npus(made) == 4
    library.pyxsim_destroy(made)
    assert library.pyxsim_create_from_file(str(tmp_path / "no.toml").encode(), b"flow", ctypes.byref(made)) == 2
    assert "no.toml" in library.pyxsim_error().decode()


@settings(max_examples=part_of(100, 10), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(1, 9000), st.integers(0, 500)), max_size=15),
    st.sampled_from(["packet", "analytical", "flow"]),
)
def test_times_are_those_of_python(library: ctypes.CDLL, rows: list, backend: str) -> None:
    """Half of the messages with callbacks and receptions, half as an array; links carry the same."""
    reference, expected = Simulator(json.loads(RING), backend=backend), {}
    made, got = created(library, RING, backend), {}
    callbacks = []
    for number, (src, hop, size, at) in enumerate(rows):
        dst = (src + hop) % 4
        if number % 2:
            reference.send(src, dst, size, number, lambda n=number: expected.__setitem__(n, reference.now), at=at)
            note = CALLBACK(lambda _, n=number: got.__setitem__(n, library.pyxsim_now(made)))
            callbacks.append(note)
            assert library.pyxsim_send_at(made, at, src, dst, size, number, NOTHING, None) == 0
            assert library.pyxsim_recv(made, src, dst, size, number, note, None) == 0
        else:
            reference.submit(src, dst, size, at=at)
            message = (LONG * 4)(src, dst, size, at)
            first = LONG(-1)
            assert library.pyxsim_submit(made, message, 1, ctypes.byref(first)) == 0
            assert first.value == number
    expected.update(zip(*(column.tolist() for column in reference.advance()), strict=True))
    assert library.pyxsim_advance_until(made, 100) == 0
    assert library.pyxsim_run(made) == 0
    taken, arrivals = LONG(), (LONG * 4)()
    while library.pyxsim_take_arrivals(made, arrivals, 2, ctypes.byref(taken)) == 0 and taken.value:
        got.update({arrivals[2 * i]: arrivals[2 * i + 1] for i in range(taken.value)})
    assert got == expected
    assert library.pyxsim_messages_in_flight(made) == library.pyxsim_receptions_waiting(made) == 0
    statistics, links = reference.statistics(), (Link * library.pyxsim_link_count(made))()
    assert library.pyxsim_link_statistics(made, links, len(links)) == 0
    assert [link.bytes for link in links] == statistics.bytes.tolist()
    assert [link.busy for link in links] == statistics.busy.tolist()
    assert [library.pyxsim_link_name(made, i).decode() for i in range(len(links))] == statistics.link
    library.pyxsim_destroy(made)


def test_stop(library: ctypes.CDLL, sim: POINTER) -> None:
    stop = CALLBACK(lambda _: library.pyxsim_stop(sim))
    library.pyxsim_schedule(sim, 7, stop, None)
    library.pyxsim_send(sim, 0, 1, 4096, 0, NOTHING, None)
    assert library.pyxsim_run(sim) == 0
    assert library.pyxsim_now(sim) == 7
    assert library.pyxsim_messages_in_flight(sim) == 1


def test_build_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="compiler: there is no C compiler 'no-such-cc'"):
        build_library(tmp_path / "a", compiler="no-such-cc")
    with pytest.raises(InputError, match=r"compiler: .*failed"):
        build_library(tmp_path / "b", compiler=f"{CC} -DPyObject=broken(")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="folder: cannot be written"):
        build_library(tmp_path / "file")


def test_command_writes_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyxsim", "library", "-o", str(tmp_path / "lib"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert f"lib/{NAME}" in json.loads(done.stdout)["files"]
