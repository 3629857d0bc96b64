#include "fakes/fake_device.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
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

#include "fakes/fake_graph.hpp"

namespace sinew::fake {
namespace {

struct Allocation {
  std::size_t bytes;
  std::byte* usable;  // the same memory, where it may be touched
  Place place;
  int file = -1;
  std::uint64_t number = 0;  // of the allocations of this process
};

/// Maps an allocation's file twice: where the host may touch it, and where it may not if it is device memory.
std::byte* map(int file, std::size_t length, Place place);

struct Stream {
  std::deque<Step> steps;
  bool running = false;  // its first step is with the thread
  bool released = false;
  std::shared_ptr<Graph> capture;  // that it is part of

  bool is_captured() const { return capture != nullptr && !capture->over; }
};

/// Set when a stream comes past the event. Within a capture it is a number of its graph instead.
struct EventState {
  std::shared_ptr<std::atomic<bool>> reached;
  std::shared_ptr<Graph> capture = {};
  std::size_t number = 0;
};

std::atomic<unsigned> steps_to_a_pause = 4;

/// What the process has: memory by address, streams, and the thread that runs them.
class Machine {
 public:
  Machine() : runner_([this](const std::stop_token& stop) { run(stop); }) {}

  void add(std::byte* address, const Allocation& a) {
    const std::scoped_lock lock(mutex_);
    Allocation& added = memory_[address] = a;
    added.number = ++allocations_;
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
  void enqueue(void* stream, const StepMaker& make) {
    if (is_capturing(stream)) {
      const std::scoped_lock lock(mutex_);
      usable(stream).capture->add_work(stream, make);
      return;
    }
    Step step = make();  // not under the lock: it may take those of others
    const std::scoped_lock lock(mutex_);
    usable(stream).steps.push_back(std::move(step));
  }

  void begin_capture(void* stream) {
    const std::scoped_lock lock(mutex_);
    Stream& s = usable(stream);
    if (s.is_captured()) throw Error(Code::System, "fake device: the stream is being captured already");
    s.capture = std::make_shared<Graph>();
    s.capture->number = ++last_capture_;
    s.capture->lane_of(stream);
  }
  std::shared_ptr<Graph> end_capture(void* stream) {
    const std::scoped_lock lock(mutex_);
    Stream& s = usable(stream);
    if (!s.is_captured() || s.capture->lanes.front().stream != stream)
      throw Error(Code::System, "fake device: no capture began on this stream");
    const std::shared_ptr<Graph> graph = s.capture;
    graph->over = true;
    if (graph->broken.empty()) graph->broken = graph->unjoined();
    if (!graph->broken.empty()) throw Error(Code::System, "fake device: the capture is broken: " + graph->broken);
    return graph;
  }
  void break_capture(void* stream) {
    const std::scoped_lock lock(mutex_);
    usable(stream).capture->broken = "a call that no capture may have";
  }
  bool is_capturing(const void* stream) {
    const std::scoped_lock lock(mutex_);
    return stream != nullptr && static_cast<const Stream*>(stream)->is_captured();
  }
  std::uint64_t capture_of(void* stream) {
    const std::scoped_lock lock(mutex_);
    if (stream == nullptr || !static_cast<Stream*>(stream)->is_captured()) return 0;
    const Graph& graph = *static_cast<Stream*>(stream)->capture;
    if (!graph.broken.empty()) throw Error(Code::InvalidArgument, "fake device: the capture is broken");
    return graph.number;
  }
  bool any_is_capturing() {
    const std::scoped_lock lock(mutex_);
    return std::ranges::any_of(streams_, [](const auto& s) { return s->is_captured(); });
  }
  void replay(const Graph& graph, void* stream) {
    const auto flag = [] { return std::make_shared<std::atomic<bool>>(false); };
    const auto set = [](const auto& f) { return Step([f] { return f->store(true), true; }); };
    const auto wait_for = [](const auto& f) { return Step([f] { return f->load(); }); };
    const auto begun = flag();
    std::vector<std::shared_ptr<std::atomic<bool>>> reached(graph.events.size());
    for (auto& f : reached) f = flag();
    std::vector<std::vector<Step>> lanes(graph.lanes.size(), std::vector<Step>{wait_for(begun)});
    for (const Graph::Node& n : graph.nodes) {
      switch (n.kind) {
        case Graph::Node::Kind::Work: lanes[n.lane].push_back(n.make()); break;
        case Graph::Node::Kind::Record: lanes[n.lane].push_back(set(reached[n.event])); break;
        case Graph::Node::Kind::Wait: lanes[n.lane].push_back(wait_for(reached[n.event])); break;
      }
    }
    const std::scoped_lock lock(mutex_);
    Stream& after = usable(stream);
    after.steps.push_back(set(begun));
    for (auto& steps : lanes) {
      const auto over = flag();
      steps.push_back(set(over));
      streams_.push_back(std::make_unique<Stream>());
      streams_.back()->steps.assign(steps.begin(), steps.end());
      streams_.back()->released = true;  // it goes when it is empty
      after.steps.push_back(wait_for(over));
    }
  }

  std::uint64_t record(void* stream) {
    const auto reached = std::make_shared<std::atomic<bool>>(false);
    const std::scoped_lock lock(mutex_);
    Stream& s = usable(stream);
    EventState state{reached};
    if (s.is_captured()) {
      state.capture = s.capture;
      state.number = s.capture->record(stream);
    } else {
      s.steps.push_back([reached] { return reached->store(true), true; });
    }
    events_[++last_event_] = std::move(state);
    return last_event_;
  }
  /// As CUDA: a captured event draws the stream into its capture, and no other event leads out of a capture or into it.
  void wait(void* stream, std::uint64_t event) {
    const std::scoped_lock lock(mutex_);
    const EventState& state = known(event);
    Stream& s = usable(stream);
    if (state.capture == nullptr) {
      if (s.is_captured()) {
        s.capture->broken = "it waits for an event from outside";
        throw Error(Code::System, "fake device: a captured stream waits for an event from outside");
      }
      s.steps.push_back([reached = state.reached] { return reached->load(); });
      return;
    }
    if (state.capture->over) throw Error(Code::System, "fake device: the event's capture is over");
    if (s.is_captured() && s.capture != state.capture)
      throw Error(Code::System, "fake device: the event belongs to another capture");
    s.capture = state.capture;
    s.capture->wait(stream, state.number);
  }
  bool query(std::uint64_t event) {
    const std::scoped_lock lock(mutex_);
    const EventState& state = known(event);
    if (state.capture != nullptr) throw Error(Code::System, "fake device: a captured event was queried");
    return state.reached->load();
  }
  void release_event(std::uint64_t event) {
    const std::scoped_lock lock(mutex_);
    events_.erase(event);
  }

 private:
  Stream& usable(void* stream) {
    auto* s = stream == nullptr ? &default_ : static_cast<Stream*>(stream);
    if (s->released) throw Error(Code::System, "fake device: the stream was released");
    return *s;
  }
  /// Steps that wait for it share its flag: it may be released before they run.
  const EventState& known(std::uint64_t event) const {
    const auto at = events_.find(event);
    if (at == events_.end()) throw Error(Code::System, "fake device: no such event");
    return at->second;
  }
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
      if (!ran || random_() % steps_to_a_pause == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  std::mutex mutex_;
  std::map<std::byte*, Allocation> memory_;
  std::uint64_t allocations_ = 0;
  std::vector<std::unique_ptr<Stream>> streams_;
  Stream default_;
  StreamPriority last_priority_ = StreamPriority::Normal;
  std::map<std::uint64_t, EventState> events_;
  std::uint64_t last_event_ = 0;
  std::uint64_t last_capture_ = 0;
  std::mt19937 random_{20'26};
  std::jthread runner_;  // last: it uses the others
};

std::atomic<Machine*> of_process = nullptr;
Machine* of_parent = nullptr;  // so that it is not taken for a leak

/// A child of fork() starts with a machine of its own, since it does not have the thread that runs the streams.
Machine& machine() {
  static const int watched = ::pthread_atfork(nullptr, nullptr, [] { of_parent = of_process.exchange(nullptr); });
  if (watched != 0) throw std::runtime_error("pthread_atfork has no memory");
  if (Machine* known = of_process) return *known;
  auto made = std::make_unique<Machine>();
  Machine* other = nullptr;
  if (!of_process.compare_exchange_strong(other, made.get())) return *other;
  std::atexit([] { delete of_process.exchange(nullptr); });
  return *made.release();
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

void pause_after(unsigned steps) { steps_to_a_pause = steps; }

void enqueue(void* stream, Step step) {
  machine().enqueue(stream, [step = std::move(step)] { return step; });
}
void enqueue_made(void* stream, std::function<Step()> make) { machine().enqueue(stream, make); }
bool is_capturing(const void* stream) { return machine().is_capturing(stream); }

std::byte* bytes_of(const void* address, std::size_t bytes) {
  const auto [allocation, offset] = machine().find(address);
  if (allocation == nullptr) return static_cast<std::byte*>(const_cast<void*>(address));
  if (offset + bytes > allocation->bytes) {
    throw std::out_of_range(
        fmt::format("fake device: {} bytes at {} of an allocation of {}", bytes, offset, allocation->bytes));
  }
  return allocation->usable + offset;
}

namespace {

std::map<std::string, KernelMaker, std::less<>>& kernels() {
  static std::map<std::string, KernelMaker, std::less<>> all;
  return all;
}

}  // namespace

void add_kernel(std::string name, KernelMaker make) { kernels()[std::move(name)] = std::move(make); }

bool has_kernel(std::string_view name) { return kernels().contains(name); }

bool run_kernel(std::string_view name, const void* argument, unsigned teams, void* stream) {
  const auto known = kernels().find(name);
  if (known == kernels().end()) return false;
  enqueue(stream, [work = known->second(argument, teams)] {
    work();
    return true;
  });
  return true;
}

StreamPriority last_priority() { return machine().last_priority(); }
int current_device() { return current; }

void Device::fail_if_asked() {
  if (!failure_.empty()) throw Error(Code::System, std::exchange(failure_, {}));
}

DeviceRuntime::Traits Device::traits(int device) { return {fmt::format("fake:{}", device), compute_capability_, 2}; }

Place Device::place_of(const void* address) {
  const auto [allocation, offset] = machine().find(address);
  return allocation == nullptr ? Place{} : allocation->place;
}

AllocationOf allocation_of(const void* address) {
  const auto [allocation, offset] = machine().find(address);
  if (allocation == nullptr) return {};
  return {static_cast<const std::byte*>(address) - offset, allocation->number};
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
  if (!no_memory_.empty() && place.kind == MemoryKind::Device) throw Error(Code::System, std::exchange(no_memory_, {}));
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

void Device::begin_capture(StreamRef stream) { machine().begin_capture(stream.stream); }
std::shared_ptr<Graph> Device::end_capture(StreamRef stream) { return machine().end_capture(stream.stream); }
void Device::break_capture(StreamRef stream) { machine().break_capture(stream.stream); }
void Device::replay(const Graph& graph, StreamRef stream) { machine().replay(graph, stream.stream); }
std::uint64_t Device::capture_of(StreamRef stream) { return machine().capture_of(stream.stream); }
bool any_stream_is_capturing() { return machine().any_is_capturing(); }

void Device::copy_async(Buffer to, ConstBuffer from, StreamRef stream) {
  copy_rows_async(to, from.bytes, from, from.bytes, from.bytes, 1, stream);
}

void Device::copy_rows_async(Buffer to, std::size_t to_pitch, ConstBuffer from, std::size_t from_pitch,
                             std::size_t row_bytes, std::size_t rows, StreamRef stream) {
  fail_if_asked();
  if (rows == 0 || row_bytes == 0) throw Error(Code::System, "fake device: a copy of nothing");
  const MemoryKind source = place_of(from.data).kind;
  const MemoryKind target = place_of(to.data).kind;
  if (source == MemoryKind::Device && target == MemoryKind::PinnedHost) to_host_ += row_bytes * rows;
  if (source == MemoryKind::PinnedHost && target == MemoryKind::Device) from_host_ += row_bytes * rows;
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

void Device::zero_async(Buffer memory, StreamRef stream) {
  fail_if_asked();
  std::byte* to = bytes_of(memory.data, memory.bytes);
  enqueue(stream.stream, [to, bytes = memory.bytes] {
    std::memset(to, 0, bytes);
    return true;
  });
}

void Device::launch(const DeviceProgram& program, const KernelLaunch& launch, StreamRef stream) {
  fail_if_asked();
  if (launch.teams == 0 || launch.threads == 0 || launch.threads > 1024)
    throw Error(Code::System, fmt::format("fake device: {} teams of {} threads", launch.teams, launch.threads));
  if (!run_kernel(launch.kernel, launch.argument, launch.teams, stream.stream))
    throw Error(Code::System, fmt::format("fake device: {} has no kernel '{}'", program.name, launch.kernel));
}

DeviceRuntime::Event Device::record(StreamRef stream) {
  fail_if_asked();
  return machine().record(stream.stream);
}

void Device::wait(StreamRef stream, Event event) {
  fail_if_asked();
  machine().wait(stream.stream, event);
}

bool Device::query(Event event) {
  fail_if_asked();
  return machine().query(event);
}

int Device::make_current(int device) { return std::exchange(current, device); }

void Device::release(Event event) noexcept { machine().release_event(event); }

}  // namespace sinew::fake
