#pragma once

#include <atomic>
#include <cstdint>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// How many forks lie between this process and the first of its line that asked: what was made under another count
/// belongs to an ancestor. Cost: one load; the count is kept by a handler of pthread_atfork.
SINEW_API extern std::atomic<std::uint32_t> fork_count;

/// Of something that a fork's child must leave alone, as it shares its parent's connections and memory.
class ForkMark {
 public:
  bool in_child() const noexcept { return fork_count.load(std::memory_order_relaxed) != made_at_; }

 private:
  std::uint32_t made_at_ = fork_count.load(std::memory_order_relaxed);
};

}  // namespace sinew
