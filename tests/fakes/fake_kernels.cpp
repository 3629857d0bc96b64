// The kernels of parallel/kernels for the fake devices. Each team has one thread, and teams run one after the other.
#include "fakes/fake_kernels.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/parallel/kernels/team_kernels.hpp>

#include "fakes/fake_device.hpp"

namespace sinew::parallel::kernels {
namespace {

/// Arrays of a launch, each where the host may touch it.
class Team {
 public:
  Team(int index, int teams) : index_(index), teams_(teams) {}

  int index() const { return index_; }
  int teams() const { return teams_; }
  template <class T>
  T* memory(T* address, std::int64_t count) const {
    return reinterpret_cast<T*>(fake::bytes_of(address, static_cast<std::size_t>(count) * sizeof(T)));
  }
  template <class F>
  void for_each(std::int64_t count, const F& f) const {
    for (std::int64_t i = index_; i < count; i += teams_) f(i);
  }
  template <class F>
  auto sum(std::int64_t first, std::int64_t last, const F& f) const {
    decltype(f(first)) sum{};
    for (std::int64_t i = first; i < last; ++i) sum += f(i);
    return sum;
  }
  template <class F>
  void once(const F& f) const {
    f();
  }

  static double wide(double x) { return x; }
  static float wide(float x) { return x; }
  static float wide(BFloat16 x) { return to_float(x); }
  static float wide(Half x) { return to_float(x); }
  template <class T, class C>
  static T narrow(C x) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      return to_bfloat16(x);
    } else if constexpr (std::is_same_v<T, Half>) {
      return to_half(x);
    } else {
      return static_cast<T>(x);
    }
  }
  static double root(double x) { return std::sqrt(x); }
  static float root(float x) { return std::sqrt(x); }

 private:
  int index_, teams_;
};

template <class Argument, class Kernel>
std::function<void()> work_of(const void* argument, unsigned teams, const Kernel& kernel) {
  return [a = *static_cast<const Argument*>(argument), n = static_cast<int>(teams), kernel] {
    for (int t = 0; t < n; ++t) kernel(Team(t, n), a);
  };
}

}  // namespace
}  // namespace sinew::parallel::kernels

namespace sinew::fake {

void add_parallel_kernels() {
  using namespace sinew::parallel::kernels;
#define SINEW_ADD(name, function, Argument)                                                              \
  add_kernel("sinew_" #name, [](const void* argument, unsigned teams) {                                  \
    return work_of<Argument>(argument, teams, [](const Team& t, const Argument& a) { function(t, a); }); \
  });
  SINEW_DEVICE_KERNELS(SINEW_ADD)
#undef SINEW_ADD
}

}  // namespace sinew::fake
