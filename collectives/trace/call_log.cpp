#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/control/clock_offset.hpp>
#include <sinew/collectives/control/trace_file.hpp>
#include <sinew/collectives/trace/call_log.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>

namespace sinew {
namespace {

/// On whole pages of any machine, as files are mapped; the header is in the first.
constexpr std::size_t kFirstBlock = 256 << 10;
constexpr std::size_t kLargestBlock = 8 << 20;

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& text) {
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

}  // namespace

CallLog::CallLog(std::string path, const LogOwner& owner) : path_(std::move(path)), file_(create_private_file(path_)) {
  LogBlock first{map(kFirstBlock), kFirstBlock, sizeof(LogHeader)};
  header_memory_ = first.memory;
  header_ = reinterpret_cast<LogHeader*>(header_memory_.get());
  blocks_.push_back(std::move(first));
  header_->rank = owner.rank;
  header_->ranks = owner.ranks;
  header_->process = ::getpid();
  header_->generation = owner.generation;
  header_->job = owner.job;
  header_->opened = monotonic_now();
  header_->opened_realtime = realtime_now();
  header_->ahead = owner.ahead_ns;
  header_->ahead_error = owner.ahead_error_ns;
  copy_text(header_->host, owner.host);
  copy_text(header_->clock, owner.clock);
  header_->magic.store(LogHeader::kMagic, std::memory_order_release);
}

CallLog::~CallLog() {
  header_->closed.store(monotonic_now(), std::memory_order_release);
  const std::size_t left = blocks_.back().bytes - blocks_.back().used;
  static_cast<void>(::ftruncate(file_.get(), static_cast<off_t>(file_bytes_ - left)));
}

std::shared_ptr<std::byte> CallLog::map(std::size_t bytes) {
  const std::string what = fmt::format("SINEW_TRACE: {} more bytes for {}", bytes, path_);
  take_room(file_, file_bytes_, bytes, what);
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), static_cast<off_t>(file_bytes_));
  if (memory == MAP_FAILED) throw_errno(what);
  file_bytes_ += bytes;
  return {static_cast<std::byte*>(memory), [bytes](std::byte* m) { ::munmap(m, bytes); }};
}

bool CallLog::grow() noexcept {
  if (truncated_) return false;
  const auto closed = [](const LogBlock& block) { return block.open == 0; };
  try {
    const std::size_t bytes = std::min(kLargestBlock, 2 * blocks_.back().bytes);
    blocks_.push_back({map(bytes), bytes});
    while (blocks_.size() > 1 && closed(blocks_.front())) blocks_.pop_front();
    return true;
  } catch (const std::exception& e) {
    truncated_ = true;
    header_->truncated.store(errno == 0 ? ENOSPC : errno, std::memory_order_relaxed);
    log::warning("{}: calls from here on are not logged; the job goes on", e.what());
    return false;
  }
}

LogEntry CallLog::lose(bool call) noexcept {
  if (call) header_->lost.store(header_->lost.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return {};
}

std::uint32_t CallLog::define(CellKind kind, std::span<const std::byte> meaning) {
  const std::uint32_t number = ++last_[static_cast<std::size_t>(kind)];
  std::uint32_t part = 0;
  const std::size_t bytes = meaning.size();
  do {
    const LogEntry place = take(false);
    if (place.cell == nullptr) return 0;
    auto& cell = *reinterpret_cast<DefinitionCell*>(place.cell);
    cell.number = number;
    cell.part = part++;
    cell.bytes = static_cast<std::uint32_t>(bytes);
    const std::size_t here = std::min(meaning.size(), DefinitionCell::kPart);
    std::memcpy(cell.data, meaning.data(), here);
    meaning = meaning.subspan(here);
    cell.kind.store(kind, std::memory_order_release);
  } while (!meaning.empty());
  return number;
}

}  // namespace sinew
