#include "fakes/fake_device.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

namespace sinew::fake {
namespace {

struct Allocation {
  std::size_t bytes;
  std::byte* usable;  // the same memory, where it may be touched
  Place place;
  int file = -1;
};

/// Maps an allocation's file twice: where the host may touch it, and where it may not if it is device memory.
std::byte* map(int file, std::size_t length, Place place);

struct Stream {
  std::deque<Step> steps;
  bool running = false;  // its first step is with the thread
  bool released = false;
  bool capturing = false;
};

/// What the process has: memory by address, streams, and the thread that runs them.
class Machine {
 public:
  Machine() : runner_([this](const std::stop_token& stop) { run(stop); }) {}

  void add(std::byte* address, const Allocation& a) {
    const std::scoped_lock lock(mutex_);
    memory_[address] = a;
  }
  Allocation forget(std::byte* address) {
    const std::scoped_lock lock(mutex_);
    const Allocation a = memory_.at(address);
    memory_.erase(address);
    return a;
  }
  /// The allocation of an address and how far into it that is; nullptr where there is none.
  std::pair<const Allocation*, std::size_t> find(const void* address) {
    const std::scoped_lock lock(mutex_);
    const auto* at = static_cast<const std::byte*>(address);
    auto after = memory_.upper_bound(const_cast<std::byte*>(at));
    if (after == memory_.begin()) return {nullptr, 0};
    const auto& [first, a] = *--after;
    const auto offset = static_cast<std::size_t>(at - first);
    return offset < a.bytes ? std::pair(&a, offset) : std::pair<const Allocation*, std::size_t>{nullptr, 0};
  }

  Stream* make_stream(StreamPriority priority) {
    const std::scoped_lock lock(mutex_);
    streams_.push_back(std::make_unique<Stream>());
    last_priority_ = priority;
    return streams_.back().get();
  }
  StreamPriority last_priority() {
    const std::scoped_lock lock(mutex_);
    return last_priority_;
  }
  void release_stream(void* stream) {
    const std::scoped_lock lock(mutex_);
    static_cast<Stream*>(stream)->released = true;
  }
  /// nullptr: the default stream.
  void enqueue(void* stream, Step step) {
    const std::scoped_lock lock(mutex_);
    auto* s = stream == nullptr ? &default_ : static_cast<Stream*>(stream);
    if (s->released) throw Error(Code::System, "fake device: the stream was released");
    s->steps.push_back(std::move(step));
  }

  void capture(void* stream, bool on) {
    const std::scoped_lock lock(mutex_);
    static_cast<Stream*>(stream)->capturing = on;
  }
  bool is_capturing(const void* stream) {
    const std::scoped_lock lock(mutex_);
    return stream != nullptr && static_cast<const Stream*>(stream)->capturing;
  }
  bool any_is_capturing() {
    const std::scoped_lock lock(mutex_);
    return std::ranges::any_of(streams_, [](const auto& s) { return s->capturing; });
  }

  /// Shared with the steps that wait for it: it may be released before they run.
  using Reached = std::shared_ptr<std::atomic<bool>>;
  std::pair<std::uint64_t, Reached> make_event() {
    const std::scoped_lock lock(mutex_);
    const auto reached = std::make_shared<std::atomic<bool>>(false);
    events_[++last_event_] = reached;
    return {last_event_, reached};
  }
  Reached event(std::uint64_t event) {
    const std::scoped_lock lock(mutex_);
    const auto at = events_.find(event);
    if (at == events_.end()) throw Error(Code::System, "fake device: no such event");
    return at->second;
  }
  void release_event(std::uint64_t event) {
    const std::scoped_lock lock(mutex_);
    events_.erase(event);
  }

 private:
  /// A stream that has something to run, by chance; its first step is taken.
  Stream* choose() {
    const std::scoped_lock lock(mutex_);
    std::vector<Stream*> ready;
    if (!default_.steps.empty()) ready.push_back(&default_);
    std::erase_if(streams_, [](const auto& s) { return s->released && s->steps.empty() && !s->running; });
    for (auto& s : streams_) {
      if (!s->steps.empty()) ready.push_back(s.get());
    }
    if (ready.empty()) return nullptr;
    Stream* chosen = ready[random_() % ready.size()];
    chosen->running = true;
    return chosen;
  }
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      Stream* s = choose();
      bool ran = false;
      if (s != nullptr) {
        Step step;
        {
          const std::scoped_lock lock(mutex_);
          step = s->steps.front();  // a copy: it may be tried again
        }
        ran = step();
        const std::scoped_lock lock(mutex_);
        if (ran) s->steps.pop_front();
        s->running = false;
      }
      if (!ran || random_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  std::mutex mutex_;
  std::map<std::byte*, Allocation> memory_;
  std::vector<std::unique_ptr<Stream>> streams_;
  Stream default_;
  StreamPriority last_priority_ = StreamPriority::Normal;
  std::map<std::uint64_t, Reached> events_;
  std::uint64_t last_event_ = 0;
  std::mt19937 random_{20'26};
  std::jthread runner_;  // last: it uses the others
};

Machine& machine() {
  static Machine m;
  return m;
}

thread_local int current = -1;

std::byte* map(int file, std::size_t length, Place place) {
  const int touch = place.kind == MemoryKind::Device ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* seen = ::mmap(nullptr, length, touch, MAP_SHARED, file, 0);
  void* usable = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (seen == MAP_FAILED || usable == MAP_FAILED) throw_errno("fake device: mmap");
  machine().add(static_cast<std::byte*>(seen), {length, static_cast<std::byte*>(usable), place, file});
  return static_cast<std::byte*>(seen);
}

}  // namespace

void enqueue(void* stream, Step step) { machine().enqueue(stream, std::move(step)); }

std::byte* bytes_of(const void* address, std::size_t bytes) {
  const auto [allocation, offset] = machine().find(address);
  if (allocation == nullptr) return static_cast<std::byte*>(const_cast<void*>(address));
  if (offset + bytes > allocation->bytes) {
    throw std::out_of_range(
        fmt::format("fake device: {} bytes at {} of an allocation of {}", bytes, offset, allocation->bytes));
  }
  return allocation->usable + offset;
}

StreamPriority last_priority() { return machine().last_priority(); }
int current_device() { return current; }

void Device::fail_if_asked() {
  if (!failure_.empty()) throw Error(Code::System, std::exchange(failure_, {}));
}

DeviceRuntime::Traits Device::traits(int device) { return {fmt::format("fake:{}", device), compute_capability_}; }

Place Device::place_of(const void* address) {
  const auto [allocation, offset] = machine().find(address);
  return allocation == nullptr ? Place{} : allocation->place;
}

bool export_memory(const std::byte* memory, char (&handle)[64]) {
  const auto [allocation, offset] = machine().find(memory);
  if (allocation == nullptr || offset != 0 || allocation->place.kind != MemoryKind::Device) return false;
  const std::string text = fmt::format("/proc/{}/fd/{} {}", ::getpid(), allocation->file, allocation->bytes);
  std::strncpy(handle, text.c_str(), sizeof handle - 1);
  return true;
}

std::byte* import_memory(const char (&handle)[64], int device) {
  const std::string text(handle);
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos || text.starts_with(fmt::format("/proc/{}/", ::getpid()))) return nullptr;
  const int file = ::open(text.substr(0, blank).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  return map(file, std::stoull(text.substr(blank + 1)), {MemoryKind::Device, device});
}

Buffer Device::allocate(std::size_t bytes, Place place) {
  fail_if_asked();
  const int file = ::memfd_create("fake device", MFD_CLOEXEC);
  const std::size_t length = bytes == 0 ? 1 : bytes;
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(length)) != 0) throw_errno("fake device: memory");
  return {map(file, length, place), bytes, place};
}

void Device::release(Buffer memory) noexcept {
  if (memory.data == nullptr) return;
  const Allocation a = machine().forget(memory.data);
  ::munmap(memory.data, a.bytes);
  ::munmap(a.usable, a.bytes);
  ::close(a.file);
}

StreamRef Device::make_stream(int device, StreamPriority priority) { return {machine().make_stream(priority), device}; }
void Device::release(StreamRef stream) noexcept {
  if (stream.stream != nullptr) machine().release_stream(stream.stream);
}

void Device::capture(StreamRef stream, bool on) { machine().capture(stream.stream, on); }
bool Device::is_capturing(StreamRef stream) { return machine().is_capturing(stream.stream); }
bool any_stream_is_capturing() { return machine().any_is_capturing(); }

void Device::copy_async(Buffer to, ConstBuffer from, StreamRef stream) {
  copy_rows_async(to, from.bytes, from, from.bytes, from.bytes, 1, stream);
}

void Device::copy_rows_async(Buffer to, std::size_t to_pitch, ConstBuffer from, std::size_t from_pitch,
                             std::size_t row_bytes, std::size_t rows, StreamRef stream) {
  fail_if_asked();
  if (rows == 0 || row_bytes == 0) throw Error(Code::System, "fake device: a copy of nothing");
  try {
    std::byte* dst = bytes_of(to.data, (rows - 1) * to_pitch + row_bytes);
    const std::byte* src = bytes_of(from.data, (rows - 1) * from_pitch + row_bytes);
    enqueue(stream.stream, [=] {
      for (std::size_t r = 0; r < rows; ++r) std::memcpy(dst + r * to_pitch, src + r * from_pitch, row_bytes);
      return true;
    });
  } catch (const std::out_of_range& e) {
    throw Error(Code::System, e.what());
  }
}

void Device::reduce_async(Buffer dst, ConstBuffer a, ConstBuffer b, ReduceOp op, DType dtype, StreamRef stream) {
  fail_if_asked();
  const Reducer reducer = reducer_for(op, dtype);
  std::byte* to = bytes_of(dst.data, dst.bytes);
  const std::byte* x = bytes_of(a.data, dst.bytes);
  const std::byte* y = bytes_of(b.data, dst.bytes);
  enqueue(stream.stream, [=, bytes = dst.bytes] {
    reducer(to, x, y, bytes);
    return true;
  });
}

DeviceRuntime::Event Device::record(StreamRef stream) {
  fail_if_asked();
  const auto [event, reached] = machine().make_event();
  enqueue(stream.stream, [reached = reached] {
    reached->store(true);
    return true;
  });
  return event;
}

void Device::wait(StreamRef stream, Event event) {
  fail_if_asked();
  enqueue(stream.stream, [reached = machine().event(event)] { return reached->load(); });
}

bool Device::query(Event event) {
  fail_if_asked();
  return machine().event(event)->load();
}

int Device::make_current(int device) { return std::exchange(current, device); }

void Device::release(Event event) noexcept { machine().release_event(event); }

}  // namespace sinew::fake
