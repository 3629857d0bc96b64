#include <pthread.h>

#include <sinew/core/system/fork_count.hpp>

namespace sinew {
namespace {

void count_fork() { fork_count.fetch_add(1, std::memory_order_relaxed); }

[[maybe_unused]] const int counts_forks = pthread_atfork(nullptr, nullptr, count_fork);

}  // namespace

std::atomic<std::uint32_t> fork_count{0};

}  // namespace sinew
