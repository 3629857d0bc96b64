#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>

#include <sinew/collectives/trace/log_format.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// What a log says of its rank.
struct LogOwner {
  int rank = 0;
  int ranks = 1;
  std::uint32_t generation = 0;
  std::uint64_t job = 0;
  std::int64_t ahead_ns = 0;
  std::int64_t ahead_error_ns = 0;
  std::string host;
  std::string clock;
};

/// A part of the file that is mapped.
struct LogBlock {
  std::shared_ptr<std::byte> memory;
  std::size_t bytes = 0;
  std::size_t used = 0;
  std::uint32_t open = 0;  ///< calls in it that have not ended
};

/// Where a call was written; null: nowhere, the log is cut.
struct LogEntry {
  CallCell* cell = nullptr;
  LogBlock* block = nullptr;
};

/// Writes all calls of a rank into the rank's own file, which outlives the rank. The file has mode 0600 and is
/// never opened through a link. It is mapped in blocks of up to 8 MiB, and the disk space of a block is allocated
/// beforehand. If there is no more space, the job goes on without further records. A warning and the file's header
/// state that once.
/// Thread: one at a time.
/// Cost:   a call needs no system call, allocation or lock. Every 131,072 calls a new block of the file is mapped.
class SINEW_API CallLog {
 public:
  /// Errors: Error{System} naming the file.
  CallLog(std::string path, const LogOwner& owner);
  /// Ended in order: gives back what room is left.
  ~CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;

  /// What numbers of one kind stand for; 0 where the log is cut.
  std::uint32_t define(CellKind kind, std::span<const std::byte> meaning);

  /// The first half; `write` fills all but the kind.
  template <class Write>
  LogEntry enter(Write&& write) noexcept {
    const LogEntry place = take(true);
    if (place.cell == nullptr) return place;
    write(*place.cell);
    place.cell->kind.store(CellKind::Call, std::memory_order_release);
    return place;
  }
  /// The second half of a call that was written.
  void complete(LogEntry place, std::int64_t at) noexcept {
    place.cell->completed.store(at, std::memory_order_release);
    --place.block->open;
  }

 private:
  LogEntry take(bool call) noexcept {
    if (blocks_.empty() || blocks_.back().used == blocks_.back().bytes) {
      if (!grow()) return lose(call);
    }
    LogBlock& block = blocks_.back();
    auto* cell = reinterpret_cast<CallCell*>(block.memory.get() + block.used);
    block.used += sizeof(CallCell);
    if (call) ++block.open;
    return {cell, &block};
  }
  LogEntry lose(bool call) noexcept;
  bool grow() noexcept;
  std::shared_ptr<std::byte> map(std::size_t bytes);

  std::string path_;
  FileDescriptor file_;
  std::shared_ptr<std::byte> header_memory_;
  LogHeader* header_ = nullptr;
  std::size_t file_bytes_ = 0;
  std::deque<LogBlock> blocks_;
  std::uint32_t last_[5] = {};  // number, by kind
  bool truncated_ = false;
};

}  // namespace sinew
