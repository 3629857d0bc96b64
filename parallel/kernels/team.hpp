#pragma once

#include <cstdint>
#include <limits>

#include <sinew/core/dtype.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/common/kernel_function.hpp>

// Kernels are functions of a Team. All threads of a team call the functions of the Team together. A Team has:
//   index()                           the number of this team
//   teams()                           the number of teams
//   memory(address, count)            the address at which `count` elements may be read and written
//   for_each(count, f)                calls f(i) for all i below count; the threads of all teams share the calls
//   whole()                           the group of all threads of this team
//   for_rows(rows, width, f)          calls f(group, r) for all r below rows; each row has one group of threads, which
//                                     is larger where rows of `width` elements are long
//   for_columns(columns, rows, f, g)  calls g(c, the sum of f(r, c) over all r below rows) for each c below columns
//   wide(x)                           the number in a stored element
//   narrow<T>(x)                      the stored element of a number
//   root(x)                           the square root of a float or double; so are exp(x), log(x) and tanh(x)
//
// All threads of a group call the functions of the group together. A group has:
//   each(count, f)                    calls f(i) for all i below count; the threads share the calls
//   join(count, start, f, join)       joins `start` with f(i) for all i below count. All threads get the result
//   first(from, to, f)                the first i in [from, to) for which f(i) is true, or else `to`
//   once(f)                           calls f() on one thread
// In each() and join() one thread gets the same i. It may therefore read what f(i) has written before. No thread
// writes what another thread of its team reads, unless join() lies between.
//
// The order in which join() and for_columns() add does not depend on the number of teams. So neither do results.

namespace sinew::parallel::kernels {

/// The type in which elements of a dtype are computed.
template <class Stored>
struct ComputedOf {
  using Type = float;
  static constexpr bool kIsNarrow = true;
};
template <>
struct ComputedOf<float> {
  using Type = float;
  static constexpr bool kIsNarrow = false;
};
template <>
struct ComputedOf<double> {
  using Type = double;
  static constexpr bool kIsNarrow = false;
};
template <class Stored>
using Computed = typename ComputedOf<Stored>::Type;

template <class T>
inline constexpr T kInfinite = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T kNotANumber = std::numeric_limits<T>::quiet_NaN();

template <class T>
SINEW_KERNEL bool is_nan(T x) {
  return x != x;
}

/// The elements from the first one of rows to their last one.
SINEW_KERNEL inline std::int64_t extent_of(std::int64_t rows, std::int64_t width, std::int64_t stride) {
  return rows == 0 ? 0 : (rows - 1) * stride + width;
}

/// The sum of f(i) for all i below count. All threads of the group get it.
template <class Group, class F>
SINEW_KERNEL auto sum_of(const Group& group, std::int64_t count, const F& f) {
  using Sum = decltype(f(count));
  return group.join(count, Sum{}, f, [](const Sum& a, const Sum& b) { return a + b; });
}

/// The largest of some numbers that are not NaN, -infinity if there is none, and whether one of them is a NaN.
template <class T>
struct Largest {
  T most;
  T has_nan;  // 1 or 0, as wide as `most`
};
template <class T>
SINEW_KERNEL Largest<T> largest_of(T x) {
  return is_nan(x) ? Largest<T>{-kInfinite<T>, 1} : Largest<T>{x, 0};
}
/// The largest of x and f(i) for all i below count. All threads of the group get it.
template <class Group, class T, class F>
SINEW_KERNEL Largest<T> largest_of(const Group& group, T x, std::int64_t count, const F& f) {
  return group.join(
      count, largest_of(x), [&](std::int64_t i) { return largest_of(f(i)); },
      [](const Largest<T>& a, const Largest<T>& b) {
        return Largest<T>{a.most < b.most ? b.most : a.most, a.has_nan < b.has_nan ? b.has_nan : a.has_nan};
      });
}

}  // namespace sinew::parallel::kernels
