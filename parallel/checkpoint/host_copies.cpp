#include <utility>

#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/checkpoint/host_copies.hpp>

namespace sinew::parallel {

HostCopies::HostCopies(const ComputeDevice& device, std::vector<CheckpointPart> parts)
    : device_(device), there_(parts.size()), here_(std::move(parts)) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < here_.size(); ++i) {
    if (here_[i].buffer.place.kind != MemoryKind::Device) continue;
    there_[i] = here_[i].buffer;
    bytes += there_[i].bytes;
  }
  memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::size_t at = 0;
  for (std::size_t i = 0; i < here_.size(); ++i) {
    if (there_[i].data == nullptr) continue;
    here_[i].buffer = {memory_.get() + at, there_[i].bytes};
    at += there_[i].bytes;
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
