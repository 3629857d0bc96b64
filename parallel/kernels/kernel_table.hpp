#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include <sinew/core/dtype.hpp>
#include <sinew/parallel/kernels/launcher.hpp>
#include <sinew/parallel/kernels/team_kernels.hpp>

// Kernels by name and dtypes. They are found when this is compiled, so that a launch searches nothing.
namespace sinew::parallel {

template <class Argument>
inline constexpr char kArgumentTag = 0;

struct KernelRow {
  const char* name;
  std::string_view kernel;
  DType first, second;
  const char* argument;  // &kArgumentTag of its type

  template <class Argument>
  constexpr bool is(std::string_view other) const {
    return kernel == other && argument == &kArgumentTag<Argument>;
  }
};

/// Every kernel of the image.
inline constexpr auto kKernelRows = [] {
  using namespace kernels;
#define SINEW_ONE(kernel, T, Argument) \
  KernelRow{"sinew_" #kernel "_" #T, #kernel, kDTypeOf<T>, kDTypeOf<T>, &kArgumentTag<Argument>},
#define SINEW_TWO(kernel, First, Second, Argument)                                               \
  KernelRow{"sinew_" #kernel "_" #First "_" #Second, #kernel, kDTypeOf<First>, kDTypeOf<Second>, \
            &kArgumentTag<Argument>},
  return std::array{SINEW_DEVICE_KERNELS(SINEW_ONE, SINEW_TWO)};
#undef SINEW_ONE
#undef SINEW_TWO
}();

/// The only kernel of this name that has this argument.
template <class Argument>
consteval Kernel<Argument> kernel_of(std::string_view kernel) {
  const char* name = nullptr;
  for (const KernelRow& row : kKernelRows) {
    if (!row.is<Argument>(kernel)) continue;
    if (name != nullptr) throw "several kernels have this name and argument";
    name = row.name;
  }
  if (name == nullptr) throw "no kernel has this name and argument";
  return {name};
}

/// Throws Error{InvalidArgument}, with the dtypes for which there is a kernel of this name.
[[noreturn]] void refuse_dtypes(std::string_view kernel, DType first, DType second);

/// The kernels of one name, for all dtypes for which there is one.
template <class Argument>
class KernelTable {
 public:
  consteval explicit KernelTable(std::string_view kernel) : kernel_(kernel) {
    bool is_empty = true;
    for (const KernelRow& row : kKernelRows) {
      if (!row.is<Argument>(kernel)) continue;
      names_[number(row.first)][number(row.second)] = row.name;
      is_empty = false;
    }
    if (is_empty) throw "no kernel has this name and argument";
  }
  /// Errors: Error{InvalidArgument} if there is no kernel for these dtypes.
  Kernel<Argument> at(DType first, DType second) const {
    if (is_float(first) && is_float(second)) {
      if (const char* const name = names_[number(first)][number(second)]) return {name};
    }
    refuse_dtypes(kernel_, first, second);
  }
  Kernel<Argument> at(DType dtype) const { return at(dtype, dtype); }

 private:
  static constexpr bool is_float(DType t) { return t >= DType::F16 && t <= DType::F64; }
  static constexpr std::size_t number(DType t) {
    return static_cast<std::size_t>(t) - static_cast<std::size_t>(DType::F16);
  }

  std::string_view kernel_;
  const char* names_[4][4] = {};
};

}  // namespace sinew::parallel
