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

/// One thread.
class Group {
 public:
  template <class F>
  void each(std::int64_t count, const F& f) const {
    for (std::int64_t i = 0; i < count; ++i) f(i);
  }
  template <class Value, class F, class Join>
  Value join(std::int64_t count, Value start, const F& f, const Join& join) const {
    for (std::int64_t i = 0; i < count; ++i) start = join(start, f(i));
    return start;
  }
  template <class F>
  std::int64_t first(std::int64_t from, std::int64_t to, const F& f) const {
    while (from < to && !f(from)) ++from;
    return from;
  }
  template <class F>
  void once(const F& f) const {
    f();
  }
};

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
  Group whole() const { return {}; }
  template <class F>
  void for_rows(std::int64_t rows, std::int64_t, const F& f) const {
    for (std::int64_t r = index_; r < rows; r += teams_) f(Group(), r);
  }
  template <class F, class G>
  void for_columns(std::int64_t columns, std::int64_t rows, const F& f, const G& g) const {
    for (std::int64_t c = index_; c < columns; c += teams_)
      g(c, sum_of(whole(), rows, [&](std::int64_t r) { return f(r, c); }));
  }

  static double wide(double x) { return x; }
  static float wide(float x) { return x; }
  static float wide(BFloat16 x) { return to_float(x); }
  static float wide(Half x) { return to_float(x); }
  template <class T, class C>
  static T narrow(C x) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      return to_bfloat16(static_cast<float>(x));
    } else if constexpr (std::is_same_v<T, Half>) {
      return to_half(static_cast<float>(x));
    } else {
      return static_cast<T>(x);
    }
  }
  template <class T>
  static T root(T x) {
    return std::sqrt(x);
  }
  template <class T>
  static T exp(T x) {
    return std::exp(x);
  }
  template <class T>
  static T log(T x) {
    return std::log(x);
  }
  template <class T>
  static T tanh(T x) {
    return std::tanh(x);
  }

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
#define SINEW_ONE(kernel, T, Argument)                                                                    \
  add_kernel("sinew_" #kernel "_" #T, [](const void* argument, unsigned teams) {                          \
    return work_of<Argument>(argument, teams, [](const Team& t, const Argument& a) { kernel<T>(t, a); }); \
  });
#define SINEW_TWO(kernel, First, Second, Argument)                                                                    \
  add_kernel("sinew_" #kernel "_" #First "_" #Second, [](const void* argument, unsigned teams) {                      \
    return work_of<Argument>(argument, teams, [](const Team& t, const Argument& a) { kernel<First, Second>(t, a); }); \
  });
  SINEW_DEVICE_KERNELS(SINEW_ONE, SINEW_TWO)
#undef SINEW_ONE
#undef SINEW_TWO
}

}  // namespace sinew::fake
