#include <sinew/transports/nccl/scratch.hpp>

namespace sinew::nccl {

Scratch::~Scratch() {
  for (const Outgrown& o : outgrown_) {
    runtime_.release(o.until);
    runtime_.release(o.memory);
  }
  for (const Buffer& memory : kept_) runtime_.release(memory);
  runtime_.release(memory_);
}

Buffer Scratch::kept(std::size_t bytes) {
  kept_.reserve(kept_.size() + 1);  // so that what is allocated is never lost
  kept_.push_back(runtime_.allocate(bytes, {MemoryKind::Device, device_}));
  kept_bytes_ += bytes;
  return kept_.back();
}

Buffer Scratch::at_least(std::size_t bytes, StreamRef stream) {
  std::erase_if(outgrown_, [this](const Outgrown& o) {
    if (!runtime_.query(o.until)) return false;
    runtime_.release(o.until);
    runtime_.release(o.memory);
    return true;
  });
  if (bytes > memory_.bytes) {
    if (memory_.data != nullptr) outgrown_.push_back({memory_, runtime_.record(stream)});
    memory_ = {};
    memory_ = runtime_.allocate(bytes, {MemoryKind::Device, device_});
  }
  return memory_.part(0, bytes);
}

}  // namespace sinew::nccl
