#include "device_memory.hpp"

#include <memory>
#include <utility>

#include <sinew/core/transport/drain.hpp>
#include <sinew/transports/registry.hpp>

namespace sinew::tools {
namespace {

/// Of a runtime, until the last who holds it lets go.
std::shared_ptr<Buffer> held(DeviceRuntime& runtime, std::size_t bytes, Place place) {
  return {new Buffer(runtime.allocate(bytes, place)), [&runtime](Buffer* b) {
            runtime.release(*b);
            delete b;
          }};
}

}  // namespace

DeviceMemory::DeviceMemory(int place_on_host)
    : runtime_(make_device_runtime()), stream_(runtime_->make_stream(place_on_host % runtime_->device_count())) {}

RingMemory DeviceMemory::allocate(std::size_t bytes, Communicator* known_by) {
  struct Held {
    std::shared_ptr<Buffer> host, plain;
    Memory known;
  };
  auto hold = std::make_shared<Held>();
  hold->host = held(*runtime_, bytes, {MemoryKind::PinnedHost, stream_.device});
  if (known_by == nullptr)
    hold->plain = held(*runtime_, bytes, place());
  else
    hold->known = known_by->allocate(bytes);
  const Buffer on_device = known_by == nullptr ? *hold->plain : hold->known.buffer();
  const Buffer on_host = *hold->host;
  const auto copy = [this](Buffer to, ConstBuffer from) {
    runtime_->copy_async(to, from, stream_);
    drain(*runtime_, stream_);
  };
  return {.data = on_device.data,
          .hold = std::move(hold),
          .place = on_device.place,
          .host = on_host.data,
          .give = [=](std::size_t length) { copy(on_device.part(0, length), on_host.part(0, length)); },
          .take = [=](std::size_t length) { copy(on_host.part(0, length), on_device.part(0, length)); }};
}

}  // namespace sinew::tools
