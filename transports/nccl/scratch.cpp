#include <sinew/transports/nccl/scratch.hpp>

namespace sinew::nccl {

Scratch::~Scratch() {
  for (const Outgrown& o : outgrown_) {
    runtime_.release(o.until);
    runtime_.release(o.memory);
  }
  runtime_.release(memory_);
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
