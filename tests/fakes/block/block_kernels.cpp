#include "fakes/block/block_kernels.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <sinew/parallel/kernels/block.hpp>
#include <sinew/parallel/kernels/team_kernels.hpp>

#include "fakes/block/block_threads.hpp"
#include "fakes/fake_device.hpp"

namespace sinew::parallel::kernels {
namespace {

/// A block whose arrays lie where the host may touch them.
class FakeBlock : public Block {
 public:
  template <class T>
  T* memory(T* address, std::int64_t count) const {
    return reinterpret_cast<T*>(fake::bytes_of(address, static_cast<std::size_t>(count) * sizeof(T)));
  }
};

template <class Argument, class Kernel>
std::function<void()> work_of(const void* argument, unsigned teams, const Kernel& kernel) {
  return [a = *static_cast<const Argument*>(argument), teams, kernel] {
    fake::run_blocks(teams, [&] { kernel(FakeBlock(), a); });
  };
}

}  // namespace
}  // namespace sinew::parallel::kernels

namespace sinew::fake {

void add_block_kernels() {
  using namespace sinew::parallel::kernels;
#define SINEW_ONE(kernel, T, Argument)                                                                         \
  add_kernel("sinew_" #kernel "_" #T, [](const void* argument, unsigned teams) {                               \
    return work_of<Argument>(argument, teams, [](const FakeBlock& b, const Argument& a) { kernel<T>(b, a); }); \
  });
#define SINEW_TWO(kernel, First, Second, Argument)                                                        \
  add_kernel("sinew_" #kernel "_" #First "_" #Second, [](const void* argument, unsigned teams) {          \
    return work_of<Argument>(argument, teams,                                                             \
                             [](const FakeBlock& b, const Argument& a) { kernel<First, Second>(b, a); }); \
  });
  SINEW_DEVICE_KERNELS(SINEW_ONE, SINEW_TWO)
#undef SINEW_ONE
#undef SINEW_TWO
}

}  // namespace sinew::fake
