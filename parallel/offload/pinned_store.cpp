#include <algorithm>
#include <bit>
#include <thread>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/offload/pinned_store.hpp>

namespace sinew::parallel {
namespace {

/// Arrays of lengths that differ by less than an eighth share pinned memory.
std::size_t pinned_room(std::size_t bytes) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(bytes)) - 4);
  const std::size_t step = std::size_t{1} << shift;
  return std::max(step, (bytes + step - 1) / step * step);
}

}  // namespace

PinnedStore::PinnedStore(DeviceRuntime& runtime, StreamRef engine)
    : runtime_(&runtime), engine_(engine), copies_(runtime.make_stream(engine.device)) {}

PinnedStore::~PinnedStore() {
  try {
    drain(*runtime_, copies_);
  } catch (...) {  // the device has failed, and its copies with it
  }
  for (const auto& [bytes, list] : idle_) {
    for (const Buffer& memory : list) runtime_->release(memory);
  }
  runtime_->release(copies_);
}

Buffer PinnedStore::take(std::size_t bytes) {
  const std::size_t room = pinned_room(bytes);
  std::vector<Buffer>& idle = idle_[room];
  if (!idle.empty()) {
    const Buffer memory = idle.back();
    idle.pop_back();
    return memory;
  }
  const Buffer memory = runtime_->allocate(room, {MemoryKind::PinnedHost, engine_.device});
  pinned_ += room;
  return memory;
}

void PinnedStore::copy_after_engine(Buffer to, ConstBuffer from) {
  const DeviceRuntime::Event computed = runtime_->record(engine_);
  runtime_->wait(copies_, computed);
  runtime_->release(computed);
  runtime_->copy_async(to, from, copies_);
  copied_ += from.bytes;
}

OffloadStore::Slot PinnedStore::write(ConstBuffer from) {
  const Buffer memory = take(from.bytes);
  try {
    if (from.bytes > 0) copy_after_engine(memory.part(0, from.bytes), from);
    const Slot slot = last_ + 1;
    arrays_.emplace(slot, Array{memory, from.bytes, from.place.kind == MemoryKind::Device, runtime_->record(copies_)});
    stored_ += from.bytes;
    return last_ = slot;
  } catch (...) {
    idle_[memory.bytes].push_back(memory);  // later copies to it are on the same stream
    throw;
  }
}

void PinnedStore::read(Slot slot, Buffer to) {
  Array& array = arrays_.at(slot);
  if (array.bytes != to.bytes)
    throw Error(Code::InvalidArgument,
                fmt::format("offload to pinned memory: {} bytes of an array of {}", to.bytes, array.bytes));
  if (to.bytes > 0) copy_after_engine(to, array.memory.part(0, to.bytes));
  array.on_device = to.place.kind == MemoryKind::Device;
  const DeviceRuntime::Event copy = runtime_->record(copies_);
  runtime_->release(array.copy);
  array.copy = copy;
}

bool PinnedStore::done(Slot slot) { return runtime_->query(arrays_.at(slot).copy); }

void PinnedStore::wait(Slot slot) {
  const Array& array = arrays_.at(slot);
  if (array.on_device) return runtime_->wait(engine_, array.copy);
  while (!runtime_->query(array.copy)) std::this_thread::yield();
}

void PinnedStore::release(Slot slot) noexcept {
  const auto found = arrays_.find(slot);
  const Array& array = found->second;
  try {
    wait(slot);
  } catch (...) {  // the device has failed, and its copies with it
  }
  runtime_->release(array.copy);
  stored_ -= array.bytes;
  idle_[array.memory.bytes].push_back(array.memory);
  arrays_.erase(found);
}

}  // namespace sinew::parallel
