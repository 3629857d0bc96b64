#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/cuda/kernels.hpp>

#if SINEW_WITH_CUDA
extern "C" const unsigned char sinew_cuda_kernels[];
#endif

namespace sinew::cuda {
namespace {

constexpr unsigned kThreads = 512;
/// Blocks per multiprocessor: enough loads in flight to fill the memory's pipe.
constexpr int kBlocksPerMultiprocessor = 4;

#if SINEW_WITH_CUDA
const void* image() { return sinew_cuda_kernels; }
#else
const void* image() { return nullptr; }
#endif

/// As kernels.cu lays it out.
struct Sources {
  const void* at[kMostSources];
};

/// Average and pre-multiplied sums are sums that are scaled.
ReduceOp combining(ReduceOp op) { return op == ReduceOp::Average || op == ReduceOp::PreMulSum ? ReduceOp::Sum : op; }

}  // namespace

Availability kernels_available() {
  if (image() != nullptr) return Availability::yes();
  return Availability::no("this build has no device kernels: nvcc was not found when it was configured");
}

Kernels::Kernels(Device device) {
  if (const Availability can = kernels_available(); !can.ok) throw Error(Code::Unavailable, can.reason);
  int multiprocessors = 1;
  check(driver().device_attribute(&multiprocessors, kAttributeMultiprocessors, device), "cuDeviceGetAttribute");
  blocks_ = static_cast<unsigned>(multiprocessors * kBlocksPerMultiprocessor);
  check(driver().load_image(&image_, image()), "cuModuleLoadData");
}

Kernels::~Kernels() { driver().unload_image(image_); }

Function Kernels::find(ReduceOp op, DType dtype) {
  Function& f = found_[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)];
  if (f == nullptr) {
    if (op == ReduceOp::User || !is_defined(op, dtype)) {
      throw Error(Code::InvalidArgument,
                  fmt::format("operator {} is not defined for {} on a device", name_of(op), name_of(dtype)));
    }
    const bool is_bool = dtype == DType::Bool;
    const std::string name = fmt::format("sinew_combine_{}_{}", name_of(is_bool ? bool_op_on_bytes(op) : op),
                                         name_of(is_bool ? DType::U8 : dtype));
    check(driver().find_function(&f, image_, name.c_str()), name.c_str());
  }
  return f;
}

void Kernels::combine(void* dst, std::span<const void* const> sources, std::size_t count, ReduceOp op, DType dtype,
                      double scale, Stream stream) {
  if (sources.empty() || sources.size() > static_cast<std::size_t>(kMostSources)) {
    throw Error(Code::InvalidArgument, fmt::format("{} contributions, expected 1 to {}", sources.size(), kMostSources));
  }
  if (count == 0) return;
  Sources from{};
  std::ranges::copy(sources, from.at);
  int sources_count = static_cast<int>(sources.size());
  void* arguments[] = {&dst, &from, &sources_count, &count, &scale};
  constexpr std::size_t kBytesPerThread = 16;
  const std::size_t threads = (count * size_of(dtype) + kBytesPerThread - 1) / kBytesPerThread;
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>(blocks_, (threads + kThreads - 1) / kThreads));
  check(driver().launch(find(combining(op), dtype), blocks, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr),
        "cuLaunchKernel");
}

}  // namespace sinew::cuda
