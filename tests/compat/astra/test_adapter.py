"""The adapter of ASTRA-sim 2 to libpyxsim, compiled with an interface of the shape of ASTRA-sim's."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from pyxsim.embed.build_library import build_library

INTERFACE = """
#pragma once
#include <cstdint>
namespace AstraSim {
enum time_type_e { SE = 0, MS, US, NS, FS };
struct timespec_t { time_type_e time_res; long double time_val; };
struct sim_request { std::uint32_t srcRank, dstRank, tag; };
class AstraNetworkAPI {
public:
    explicit AstraNetworkAPI(int rank) : rank(rank) {}
    virtual ~AstraNetworkAPI() = default;
    virtual int sim_send(
        void *buffer, std::uint64_t count, int type, int dst, int tag, sim_request *request, void (*handler)(void *),
        void *argument) = 0;
    virtual int sim_recv(
        void *buffer, std::uint64_t count, int type, int src, int tag, sim_request *request, void (*handler)(void *),
        void *argument) = 0;
    virtual void sim_schedule(timespec_t delta, void (*function)(void *), void *argument) = 0;
    virtual int sim_comm_get_rank() { return rank; }
    virtual timespec_t sim_get_time() = 0;
    virtual double get_BW_at_dimension(int) { return -1; }
    int rank;
};
}
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
@pytest.mark.skipif(not sysconfig.get_config_var("Py_ENABLE_SHARED"), reason="Python has no shared library")
def test_ranks_over_the_adapter(tmp_path: Path) -> None:
    build_library(tmp_path)
    interface = tmp_path / "astra-sim/common/AstraNetworkAPI.hh"
    interface.parent.mkdir(parents=True)
    interface.write_text(INTERFACE)
    source, lib = Path(__file__).with_name("adapter.cpp"), tmp_path / "lib"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", f"-I{tmp_path}/include"]
    flags += [f"-L{lib}", f"-Wl,-rpath,{lib}", "-lpyxsim", "-o", str(tmp_path / "client")]
    subprocess.run(["c++", str(source), *flags], check=True, timeout=120)
    said = subprocess.run([str(tmp_path / "client")], check=True, capture_output=True, text=True, timeout=60).stdout
    # 5 messages of 50 + 10,000 / 100 cycles, each with a delay of 10.75 cycles, of which 10 pass
    assert said == f"{5 * (50 + 100 + 10)} 100 -1\n"
