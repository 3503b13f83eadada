// ASTRA-sim 2 over libpyxsim: its interface of networks, AstraNetworkAPI, as one class (docs/library.md).
//
// A front end creates one simulator and one PyxsimAstraNetwork per rank, gives them to ASTRA-sim's Sys objects, fires
// their workloads and calls pyxsim_run.

#ifndef PYXSIM_ASTRA_NETWORK_HH
#define PYXSIM_ASTRA_NETWORK_HH

#if __has_include("astra-sim/common/AstraNetworkAPI.hh")
#include "astra-sim/common/AstraNetworkAPI.hh"
#else
#include "astra-sim/system/AstraNetworkAPI.hh"
#endif

#include <pyxsim.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

class PyxsimAstraNetwork : public AstraSim::AstraNetworkAPI {
public:
    // `simulator` is shared by all ranks and outlives them. `bandwidths`: GB/s by dimension, which schedulers that
    // weigh dimensions ask for.
    PyxsimAstraNetwork(pyxsim_simulator *simulator, int rank, std::vector<double> bandwidths = {})
        : AstraNetworkAPI(rank),
          simulator_(simulator),
          bandwidths_(std::move(bandwidths)),
          cycles_per_ns_(static_cast<long double>(pyxsim_clock_hz(simulator)) / 1e9L) {}

    int sim_send(
        void *, std::uint64_t count, int, int dst, int tag, AstraSim::sim_request *, void (*msg_handler)(void *),
        void *fun_arg
    ) override {
        const auto bytes = static_cast<std::int64_t>(count);
        check(pyxsim_send(simulator_, sim_comm_get_rank(), dst, bytes, tag, msg_handler, fun_arg));
        return 0;
    }

    int sim_recv(
        void *, std::uint64_t count, int, int src, int tag, AstraSim::sim_request *, void (*msg_handler)(void *),
        void *fun_arg
    ) override {
        const auto bytes = static_cast<std::int64_t>(count);
        check(pyxsim_recv(simulator_, src, sim_comm_get_rank(), bytes, tag, msg_handler, fun_arg));
        return 0;
    }

    // As in ASTRA-sim's own networks, a fraction of a cycle is dropped.
    void sim_schedule(AstraSim::timespec_t delta, void (*fun_ptr)(void *), void *fun_arg) override {
        const long double cycles = std::floor(delta.time_val * cycles_per_ns_);
        check(pyxsim_schedule(simulator_, static_cast<std::int64_t>(cycles), fun_ptr, fun_arg));
    }

    AstraSim::timespec_t sim_get_time() override {
        AstraSim::timespec_t time{};
        time.time_res = AstraSim::NS;
        time.time_val = static_cast<long double>(pyxsim_now(simulator_)) / cycles_per_ns_;
        return time;
    }

    double get_BW_at_dimension(int dim) override {
        return dim >= 0 && static_cast<std::size_t>(dim) < bandwidths_.size()
                   ? bandwidths_[static_cast<std::size_t>(dim)]
                   : -1;
    }

private:
    static void check(int code) {
        if (code != PYXSIM_OK)
            throw std::runtime_error(std::string("pyxsim: ") + pyxsim_error());
    }

    pyxsim_simulator *simulator_;
    std::vector<double> bandwidths_;
    long double cycles_per_ns_;
};

#endif
