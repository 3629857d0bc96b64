// Our device kernels against the device's own copy. One JSON object per line; bytes per second count everything that is
// read and written.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/config.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/topology/format/json/json_object.hpp>
#include <sinew/transports/cuda/runtime.hpp>

#include "command_line.hpp"

namespace {

using namespace sinew;

constexpr int kRounds = 11;
constexpr int kCallsPerRound = 8;

struct Bench {
  cuda::Runtime runtime;
  StreamRef stream = runtime.make_stream(0);
  std::size_t bytes = 0;
  std::vector<Buffer> memory;

  explicit Bench(std::size_t length) : bytes(length) {
    for (int i = 0; i < 3; ++i) memory.push_back(runtime.allocate(bytes, {MemoryKind::Device, 0}));
  }
  ~Bench() {
    for (const Buffer b : memory) runtime.release(b);
    runtime.release(stream);
  }

  /// Median seconds of one call, of rounds that enqueue several and wait for the last.
  template <class F>
  double seconds(F&& enqueue) {
    std::vector<double> rounds;
    for (int r = -2; r < kRounds; ++r) {
      const auto begin = std::chrono::steady_clock::now();
      for (int c = 0; c < kCallsPerRound; ++c) enqueue();
      drain(runtime, stream);
      const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (r >= 0) rounds.push_back(s / kCallsPerRound);
    }
    std::ranges::sort(rounds);
    return rounds[rounds.size() / 2];
  }
};

void run(std::size_t bytes) {
  Bench b(bytes);
  const double copy = b.seconds([&] { b.runtime.copy_async(b.memory[0], b.memory[1], b.stream); });
  const double copy_rate = 2.0 * static_cast<double>(bytes) / copy;
  std::puts(json_object({{"what", "copy"}, {"bytes", bytes}, {"GBps", copy_rate / 1e9, 1}}).c_str());
  for (const DType t : all_dtypes()) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Product}) {
      const double s =
          b.seconds([&] { b.runtime.reduce_async(b.memory[0], b.memory[1], b.memory[2], op, t, b.stream); });
      const double rate = 3.0 * static_cast<double>(bytes) / s;
      std::puts(json_object({{"what", "reduce"},
                             {"dtype", name_of(t)},
                             {"op", name_of(op)},
                             {"bytes", bytes},
                             {"GBps", rate / 1e9, 1},
                             {"of_copy", rate / copy_rate, 3}})
                    .c_str());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::CommandLine command("measures the device kernels beside the device's own copy");
  std::string bytes = "256MiB";
  command.option("--bytes", bytes, "of one operand, as 256MiB");
  command.parse(argc, argv);
  try {
    run(parse_bytes(bytes));
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "device_bench: {}\n", e.what());
    return e.code() == Code::InvalidArgument ? 2 : 1;
  }
}
