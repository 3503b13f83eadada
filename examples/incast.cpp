// An incast in C++, packet by packet: every NPU sends to NPU 0, and each arrival is answered.
//
//     pyxsim library -o lib
//     c++ -std=c++17 examples/incast.cpp $(PKG_CONFIG_PATH=lib/lib/pkgconfig pkg-config --cflags --libs pyxsim) -o incast
//     ./incast

#include <pyxsim.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

void check(int code) {
    if (code != PYXSIM_OK)
        throw std::runtime_error(pyxsim_error());
}

class Network {
public:
    explicit Network(const char *settings) {
        pyxsim_simulator *made = nullptr;
        check(pyxsim_create(settings, "packet", &made));
        simulator_.reset(made);
    }

    void send(std::int64_t src, std::int64_t dst, std::int64_t bytes, std::function<void()> arrived) {
        auto argument = std::make_unique<std::function<void()>>(std::move(arrived));
        check(pyxsim_send(simulator_.get(), src, dst, bytes, PYXSIM_NO_RECEPTION, call, argument.get()));
        argument.release();  // `call` deletes it
    }

    void run() { check(pyxsim_run(simulator_.get())); }

    std::int64_t now() const { return pyxsim_now(simulator_.get()); }

    std::int64_t npus() const { return pyxsim_npus(simulator_.get()); }

    // The name of the link that was busy longest, and the part of the time in which it was.
    std::pair<const char *, double> busiest() const {
        std::vector<pyxsim_link> links(static_cast<std::size_t>(pyxsim_link_count(simulator_.get())));
        check(pyxsim_link_statistics(simulator_.get(), links.data(), static_cast<std::int64_t>(links.size())));
        auto most = std::max_element(
            links.begin(), links.end(), [](const auto &one, const auto &other) { return one.busy < other.busy; });
        return {pyxsim_link_name(simulator_.get(), most - links.begin()), most->busy / static_cast<double>(now())};
    }

private:
    struct Destroy {
        void operator()(pyxsim_simulator *simulator) const { pyxsim_destroy(simulator); }
    };

    static void call(void *argument) {
        std::unique_ptr<std::function<void()>> function(static_cast<std::function<void()> *>(argument));
        (*function)();
    }

    std::unique_ptr<pyxsim_simulator, Destroy> simulator_;
};

}  // namespace

int main() {
    try {
        constexpr std::int64_t bytes = 1 << 18;
        Network network(R"({"network": {"topology": "switch", "shape": [8], "bandwidth": "100 GB/s"}})");
        std::int64_t last = 0, answers = 0;
        for (std::int64_t npu = 1; npu < network.npus(); npu++)
            network.send(npu, 0, bytes, [&, npu] {
                last = network.now();
                network.send(0, npu, 64, [&] { answers++; });
            });
        network.run();
        const std::int64_t least = (network.npus() - 1) * bytes / 100;  // the link to NPU 0 carries 100 bytes per ns
        std::printf("last arrival at %lld ns, its link alone takes %lld ns\n", static_cast<long long>(last),
                    static_cast<long long>(least));
        const auto [name, part] = network.busiest();
        std::printf("busiest link %s, %.1f%% of the time; %lld answers\n", name, 100 * part,
                    static_cast<long long>(answers));
        return last < least || answers != network.npus() - 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
