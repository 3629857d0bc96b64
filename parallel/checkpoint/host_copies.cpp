#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/checkpoint/host_copies.hpp>
#include <sinew/parallel/checkpoint/packed_places.hpp>

namespace sinew::parallel {

HostCopies::HostCopies(const ComputeDevice& device, std::vector<CheckpointPart> parts)
    : device_(device), there_(parts.size()), here_(std::move(parts)) {
  PackedPlaces places;
  std::vector<std::size_t> begins(here_.size());
  for (std::size_t i = 0; i < here_.size(); ++i) {
    if (here_[i].buffer.place.kind != MemoryKind::Device) continue;
    if (!device_.exists())
      throw Error(Code::InvalidArgument,
                  fmt::format("host copies: {} is in memory of device {}, and no device was given; expected the one on "
                              "whose stream its buffer is used",
                              here_[i].item.to_string(), here_[i].buffer.place.device));
    there_[i] = here_[i].buffer;
    begins[i] = places.add(there_[i].bytes);
  }
  memory_ = std::make_unique_for_overwrite<std::byte[]>(places.bytes());
  for (std::size_t i = 0; i < here_.size(); ++i) {
    if (there_[i].data != nullptr) here_[i].buffer = {memory_.get() + begins[i], there_[i].bytes};
  }
}

void HostCopies::bring_down() {
  for (std::size_t i = 0; i < here_.size(); ++i) {
    if (there_[i].bytes != 0) device_.runtime->copy_async(here_[i].buffer, there_[i], device_.stream);
  }
  if (device_.exists()) drain(*device_.runtime, device_.stream);
}

void HostCopies::send_up() {
  for (std::size_t i = 0; i < here_.size(); ++i) {
    if (there_[i].bytes != 0) device_.runtime->copy_async(there_[i], here_[i].buffer, device_.stream);
  }
  if (device_.exists()) drain(*device_.runtime, device_.stream);
}

}  // namespace sinew::parallel
