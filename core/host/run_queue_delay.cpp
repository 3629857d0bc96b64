#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include <sinew/core/host/run_queue_delay.hpp>

namespace sinew {

RunQueueDelay::RunQueueDelay() : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

Displacement RunQueueDelay::read() const noexcept {
  Displacement now;
  std::array<char, 96> text{};
  if (file_ && ::pread(file_.get(), text.data(), text.size() - 1, 0) > 0) {
    char* second = nullptr;
    static_cast<void>(std::strtod(text.data(), &second));  // "running waiting slices", in nanoseconds
    now.delay_s = std::strtod(second, nullptr) * 1e-9;
  }
  rusage usage{};
  if (::getrusage(RUSAGE_THREAD, &usage) == 0) now.preemptions = usage.ru_nivcsw;
  return now;
}

bool displaced(const Displacement& before, const Displacement& after, double elapsed_s, double share) noexcept {
  return after.preemptions > before.preemptions && after.delay_s - before.delay_s > share * elapsed_s;
}

}  // namespace sinew
