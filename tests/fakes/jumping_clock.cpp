// A time of day that jumps three hours forth and back, every 20 ms, for programs that LD_PRELOAD this. With the
// variable FAKE_CLOCK_AHEAD_S it is so many seconds ahead all the time. All other clocks are the kernel's.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

constexpr long kJump = 3 * 60 * 60;

timespec kernels(clockid_t clock) {
  timespec t{};
  ::syscall(SYS_clock_gettime, clock, &t);
  return t;
}

/// Seconds by which the time of day is ahead now.
long ahead_s() {
  static const char* const kAlways = ::getenv("FAKE_CLOCK_AHEAD_S");
  if (kAlways != nullptr) return std::strtol(kAlways, nullptr, 10);
  const timespec now = kernels(CLOCK_MONOTONIC);
  return now.tv_nsec / 20'000'000 % 2 == 0 ? kJump : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* into) noexcept {
  const long result = ::syscall(SYS_clock_gettime, clock, into);
  const bool of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && of_day) into->tv_sec += ahead_s();
  return static_cast<int>(result);
}

int gettimeofday(timeval* into, void*) noexcept {
  const timespec now = kernels(CLOCK_REALTIME);
  into->tv_sec = now.tv_sec + ahead_s();
  into->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* into) noexcept {
  const time_t now = kernels(CLOCK_REALTIME).tv_sec + ahead_s();
  if (into != nullptr) *into = now;
  return now;
}
}
