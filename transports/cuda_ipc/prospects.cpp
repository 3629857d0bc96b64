#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/call/cost_model.hpp>
#include <sinew/transports/cuda/runtime.hpp>
#include <sinew/transports/cuda_ipc/prospects.hpp>
#include <sinew/transports/cuda_ipc/scratch.hpp>

namespace sinew::cuda_ipc {
namespace {

/// Up to here every rank reads all contributions. Above, it reads a part of each, and the others' results.
constexpr std::uint64_t kOneShotBytes = 256 << 10;
/// The time in which a phase is launched, its event is seen, and the other ranks are told.
constexpr Seconds kPhase = 15e-6;
/// A process's turn on a device that it shares: what an H200 gave each of two (docs/results/gpu.md).
constexpr Seconds kTurn = 140e-6;
/// The rate at which a device reads another one's memory, where nobody knows what joins them.
constexpr double kAssumedBytesPerS = 50e9;
/// The share of its links that a device reaches while all devices read. It is assumed: nobody has measured it on
/// several GPUs.
constexpr double kReadShare = 0.85;

}  // namespace

IpcProspects::IpcProspects(std::span<const DeviceLinks> devices, int sharers)
    : group_(device_group(devices)), ranks_(devices.size()), sharers_(sharers) {}

Availability IpcProspects::supports(const CollectiveDesc& desc) const {
  switch (desc.collective) {
    case Collective::AllReduce:
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
    case Collective::Broadcast:
    case Collective::Reduce: break;
    default: return Availability::no(fmt::format("cuda_ipc has no {}", name_of(desc.collective)));
  }
  if (desc.place.kind != MemoryKind::Device) return Availability::no("the buffers are host memory");
  if (desc.codec != Codec::None) return Availability::no("it reads what ranks have in memory, where nothing is coded");
  if (!reduces(desc.collective)) return Availability::yes();
  if (desc.op == ReduceOp::User) return Availability::no("a user's operator runs on the host");
  if (desc.determinism != Determinism::Fast && !is_integer(desc.dtype))
    return Availability::no("it adds in the order of the ranks and rounds once, not by the canonical tree");
  return cuda::kernels_available();
}

Shape IpcProspects::shape_of(const CollectiveDesc& desc) const {
  Shape shape;
  shape.blocks = blocks_of(desc.collective, ranks_);
  shape.elements = kFragmentBytes / (shape.blocks.in * size_of(desc.dtype));
  shape.fragments = std::max<std::uint64_t>(1, (desc.count + shape.elements - 1) / shape.elements);
  shape.two_shot =
      desc.collective == Collective::AllReduce && ranks_ > 2 && desc.count * size_of(desc.dtype) > kOneShotBytes;
  return shape;
}

/// A rank copies its contribution into its scratch memory, and reads what it needs of the others'.
Seconds IpcProspects::predict(const CollectiveDesc& desc) const {
  const Shape shape = shape_of(desc);
  const auto bytes = static_cast<double>(desc.count * size_of(desc.dtype));
  const auto others = static_cast<double>(ranks_ - 1);
  const double read = shape.two_shot ? 2 * others / static_cast<double>(ranks_) * bytes : others * bytes;
  const double copied = static_cast<double>(shape.blocks.in) * bytes;
  const double rate = group_.is_assumed ? kAssumedBytesPerS : group_.device_bytes_per_s * kReadShare;
  const Seconds phase = sharers_ > 1 ? kPhase + sharers_ * kTurn : kPhase;
  return static_cast<double>(shape.fragments) * (shape.two_shot ? 3 : 2) * phase +
         copied / assumed::kDeviceCopyBytesPerS + read / rate;
}

std::string IpcProspects::describe(const CollectiveDesc& desc) const {
  const Shape shape = shape_of(desc);
  return fmt::format("{}, {} fragment{}{}", shape.two_shot ? "two-shot" : "one-shot", shape.fragments,
                     shape.fragments == 1 ? "" : "s",
                     sharers_ > 1 ? fmt::format(", {} processes take turns on a device", sharers_) : "");
}

}  // namespace sinew::cuda_ipc
