#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/system/thread_without_signals.hpp>
#include <sinew/parallel/offload/file_store.hpp>
#include <sinew/parallel/offload/scratch_file.hpp>

namespace sinew::parallel {
namespace {

constexpr std::uint64_t kBlock = 4096;  // arrays begin at multiples of it, as blocks of disks do; not a page size

/// The free room of a file that grows.
class FreeRoom {
 public:
  std::uint64_t take(std::uint64_t bytes) {
    const auto found = std::ranges::find_if(free_, [&](const auto& room) { return room.second >= bytes; });
    if (found == free_.end()) return std::exchange(end_, end_ + bytes);
    const auto [at, length] = *found;
    free_.erase(found);
    if (length > bytes) free_[at + bytes] = length - bytes;
    return at;
  }
  void give_back(std::uint64_t at, std::uint64_t bytes) {
    auto here = free_.emplace(at, bytes).first;
    if (const auto next = std::next(here); next != free_.end() && next->first == at + bytes) {
      here->second += next->second;
      free_.erase(next);
    }
    if (here == free_.begin()) return;
    const auto before = std::prev(here);
    if (before->first + before->second != here->first) return;
    before->second += here->second;
    free_.erase(here);
  }
  std::uint64_t end() const noexcept { return end_; }

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // where it begins, and its bytes
  std::uint64_t end_ = 0;
};

struct StoredArray {
  std::uint64_t at = 0;
  std::size_t bytes = 0;
  int copies = 0;  // begun and not ended
  Status failure{};

  std::uint64_t room() const noexcept { return std::max(kBlock, (bytes + kBlock - 1) / kBlock * kBlock); }
};

struct FileCopy {
  OffloadStore::Slot slot;
  std::byte* memory;
  bool writes;
};

}  // namespace

struct FileStore::State {
  explicit State(std::string where) : folder(std::move(where)), file(scratch_file(folder)) {
    thread = thread_without_signals([this] { run(); });
  }
  ~State() {
    {
      const std::lock_guard lock(mutex);
      ends = true;
    }
    changed.notify_all();
    thread.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// The thread's body.
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return ends || !queue.empty(); });
      if (queue.empty()) return;
      const FileCopy copy = queue.front();
      queue.pop_front();
      running = copy.slot;
      StoredArray& array = arrays.at(copy.slot);
      const bool has_failed = !array.failure.ok();
      const auto [at, bytes] = std::pair(array.at, array.bytes);
      lock.unlock();
      Status failure = has_failed ? Status() : copied(copy, at, bytes);
      lock.lock();
      running = 0;
      if (!failure.ok()) array.failure = std::move(failure);
      --array.copies;
      ended.notify_all();
    }
  }
  Status copied(const FileCopy& copy, std::uint64_t at, std::size_t bytes) {
    std::size_t moved = 0;
    while (moved < bytes) {
      const auto offset = static_cast<off_t>(at + moved);
      const ssize_t n = copy.writes ? ::pwrite(file.get(), copy.memory + moved, bytes - moved, offset)
                                    : ::pread(file.get(), copy.memory + moved, bytes - moved, offset);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failure_of(copy, at + moved, bytes - moved, n < 0 ? errno : EIO);
      moved += static_cast<std::size_t>(n);
      total += static_cast<std::uint64_t>(n);
    }
    return {};
  }
  Status failure_of(const FileCopy& copy, std::uint64_t at, std::size_t bytes, int error) const {
    try {
      throw_errno(fmt::format("offload to a scratch file in '{}': {} {} bytes at {}", folder,
                              copy.writes ? "writing" : "reading", bytes, at),
                  error);
    } catch (const Error& e) {
      return status_of(e);
    }
  }
  StoredArray& array_of(Slot slot, std::size_t bytes) {
    StoredArray& array = arrays.at(slot);
    if (array.bytes != bytes)
      throw Error(Code::InvalidArgument, fmt::format("offload to a scratch file in '{}': {} bytes of an array of {}",
                                                     folder, bytes, array.bytes));
    return array;
  }
  void require_host(Place place) const {
    if (place.kind == MemoryKind::Device)
      throw Error(Code::InvalidArgument,
                  fmt::format("offload to a scratch file in '{}': an array is in the memory of device {}, expected "
                              "memory of the host",
                              folder, place.device));
  }
  /// Somebody may wait for what is read, so that it goes before writes of other arrays.
  void begin(const FileCopy& copy, StoredArray& array) {
    const bool is_first = !copy.writes && array.copies == 0;
    queue.insert(is_first ? std::ranges::find(queue, true, &FileCopy::writes) : queue.end(), copy);
    ++array.copies;
    changed.notify_all();
  }

  std::string folder;
  FileDescriptor file;
  mutable std::mutex mutex;
  std::condition_variable changed, ended;  // something for the thread to do; a copy has ended
  std::unordered_map<Slot, StoredArray> arrays;
  std::deque<FileCopy> queue;
  FreeRoom room;
  Slot last = 0, running = 0;
  std::size_t stored = 0;
  std::atomic<std::uint64_t> total{0};
  bool ends = false;
  std::thread thread;
};

FileStore::FileStore(std::string folder) : state_(std::make_unique<State>(std::move(folder))) {}
FileStore::~FileStore() = default;

OffloadStore::Slot FileStore::write(ConstBuffer from) {
  state_->require_host(from.place);
  const std::lock_guard lock(state_->mutex);
  const Slot slot = state_->last + 1;
  StoredArray array{.bytes = from.bytes};
  array.at = state_->room.take(array.room());
  StoredArray& kept = state_->arrays.emplace(slot, array).first->second;
  state_->begin({slot, const_cast<std::byte*>(from.data), true}, kept);
  state_->last = slot;
  state_->stored += from.bytes;
  return slot;
}

void FileStore::read(Slot slot, Buffer to) {
  state_->require_host(to.place);
  const std::lock_guard lock(state_->mutex);
  StoredArray& array = state_->array_of(slot, to.bytes);
  state_->begin({slot, to.data, false}, array);
}

bool FileStore::done(Slot slot) {
  const std::lock_guard lock(state_->mutex);
  return state_->arrays.at(slot).copies == 0;
}

void FileStore::wait(Slot slot) {
  std::unique_lock lock(state_->mutex);
  StoredArray& array = state_->arrays.at(slot);
  state_->ended.wait(lock, [&] { return array.copies == 0; });
  array.failure.require();
}

void FileStore::release(Slot slot) noexcept {
  std::unique_lock lock(state_->mutex);
  const auto found = state_->arrays.find(slot);
  std::erase_if(state_->queue, [&](const FileCopy& copy) { return copy.slot == slot; });
  state_->ended.wait(lock, [&] { return state_->running != slot; });
  state_->room.give_back(found->second.at, found->second.room());
  state_->stored -= found->second.bytes;
  state_->arrays.erase(found);
}

std::size_t FileStore::stored_bytes() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->stored;
}
std::uint64_t FileStore::copied_bytes() const noexcept { return state_->total.load(); }
std::uint64_t FileStore::file_bytes() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->room.end();
}

}  // namespace sinew::parallel
