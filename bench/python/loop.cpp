// bench/python/overhead.py compares Python with this loop: the same calls in the same process, made by C++. ctypes
// loads this file, so its functions have names of C.
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>

#include <sinew/collectives/world.hpp>

namespace {

std::unique_ptr<sinew::World>& world() {
  static std::unique_ptr<sinew::World> made;
  return made;
}

}  // namespace

#define SINEW_FOR_CTYPES extern "C" __attribute__((visibility("default")))

/// Makes the World. Returns false, after a line on stderr, if that fails.
SINEW_FOR_CTYPES bool open_world() {
  try {
    world() = std::make_unique<sinew::World>(sinew::World::from_environment());
    return true;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "loop: %s\n", e.what());
    return false;
  }
}

SINEW_FOR_CTYPES void close_world() { world().reset(); }

/// Seconds that `calls` all-reduces of `count` elements take, in place. Below 0: one has failed.
SINEW_FOR_CTYPES double all_reduce_seconds(double* data, std::size_t count, int calls) {
  try {
    sinew::Communicator& all = world()->communicator();
    all.barrier().get();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i)
      all.all_reduce(std::span(data, count), sinew::ReduceOp::Max, {.waits_at_once = true, .where = {}}).get();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "loop: %s\n", e.what());
    return -1;
  }
}
