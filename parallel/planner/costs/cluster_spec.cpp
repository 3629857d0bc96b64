#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/planner/costs/cluster_spec.hpp>

namespace sinew::parallel {
namespace {

struct Rates {
  std::string_view name;
  double flops = 0, memory_bytes_per_s = 0;
  const char* source = "";
};

constexpr double kTera = 1e12, kGiga = 1e9;

constexpr Rates kRates[] = {
    {"NVIDIA A100-SXM4-80GB", 312 * kTera, 2039 * kGiga,
     "A100 80GB datasheet, 2021: BF16 tensor cores 312 TFLOPS, 2,039 GB/s"},
    {"NVIDIA H100 80GB HBM3", 989.4 * kTera, 3350 * kGiga,
     "H100 SXM5 datasheet, 2023: BF16 tensor cores 1,979 TFLOPS with sparsity, half of it without; 3.35 TB/s"},
    {"NVIDIA H200", 989.4 * kTera, 4800 * kGiga,
     "H200 SXM datasheet, 2024: BF16 tensor cores 1,979 TFLOPS with sparsity, half of it without; 4.8 TB/s"},
    // 1,024 multiply-adds of BF16 per core and cycle: two tiles of 16 x 32 each.
    {"Intel Xeon Platinum 8480+", 56 * 2.0 * kGiga * 2048, 307.2 * kGiga,
     "Intel ARK: 56 cores, 2.0 GHz base; AMX: 2,048 BF16 operations per core and cycle; 8 channels of DDR5-4800"},
    // Two units of 256 bits: 32 multiply-adds of BF16 per core and cycle.
    {"AMD EPYC 9654", 96 * 2.4 * kGiga * 64, 460.8 * kGiga,
     "AMD product page: 96 cores, 2.4 GHz base; AVX512_BF16 on 256 bits, twice a cycle; 12 channels of DDR5-4800"},
};

const Rates* rates_of(std::string_view name) {
  for (const Rates& r : kRates) {
    if (r.name == name) return &r;
  }
  return nullptr;
}

template <class T>
void require_positive(const char* what, T value) {
  if (value > 0 && std::isfinite(static_cast<double>(value))) return;
  throw Error(Code::InvalidArgument, fmt::format("{} of a rank: {}, expected more than 0", what, value));
}

/// The memory of the first rank's accelerator. Without an accelerator, the memory of its socket.
std::int64_t memory_of(const Machine& machine) {
  if (!machine.gpus.empty()) return static_cast<std::int64_t>(machine.gpus.front().memory_bytes);
  std::uint64_t bytes = 0;
  for (const NumaNode& node : machine.numa_nodes) {
    if (node.package == machine.numa_nodes.front().package) bytes += node.memory_bytes;
  }
  return static_cast<std::int64_t>(bytes);
}

std::string name_of_device(const Machine& machine) {
  if (!machine.gpus.empty()) return machine.gpus.front().name;
  return machine.packages.empty() ? "" : machine.packages.front().model;
}

}  // namespace

ClusterSpec cluster_spec(const VirtualCluster& on, const ClusterRates& given) {
  if (!on.network.ranks_on.empty())
    throw Error(Code::InvalidArgument,
                fmt::format("cluster '{}': hosts of unequal numbers of ranks, expected equal ones, such as dgx-h100x8",
                            on.name));
  const std::string device = name_of_device(on.machine);
  const Rates* rates = rates_of(device);
  if (rates == nullptr && (!given.flops || !given.memory_bytes_per_s)) {
    std::vector<std::string_view> known;
    for (const Rates& r : kRates) known.push_back(r.name);
    throw Error(Code::InvalidArgument,
                fmt::format("cluster '{}': nothing is known of what '{}' computes; expected --flops and --memory-rate, "
                            "or one of {}",
                            on.name, device, fmt::join(known, ", ")));
  }
  ClusterSpec spec{
      .name = on.name,
      .network = on.network,
      .flops = given.flops ? *given.flops : rates->flops,
      .memory_bytes_per_s = given.memory_bytes_per_s ? *given.memory_bytes_per_s : rates->memory_bytes_per_s,
      .memory_bytes = given.memory_bytes.value_or(memory_of(on.machine)),
      .sources = {}};
  if (rates != nullptr && !(given.flops && given.memory_bytes_per_s)) spec.sources.emplace_back(rates->source);
  if (given.flops || given.memory_bytes_per_s || given.memory_bytes) spec.sources.emplace_back("the caller");
  for (const std::string& assumed : on.assumed) spec.sources.push_back(assumed);
  require_positive("operations per second", spec.flops);
  require_positive("memory rate", spec.memory_bytes_per_s);
  require_positive("memory", spec.memory_bytes);
  return spec;
}

}  // namespace sinew::parallel
