#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/kernels/kernel_table.hpp>

namespace sinew::parallel {
namespace {

std::string named(DType first, DType second) {
  return first == second ? std::string(name_of(first)) : fmt::format("{}/{}", name_of(first), name_of(second));
}

}  // namespace

void refuse_dtypes(std::string_view kernel, DType first, DType second) {
  std::vector<std::string> known;
  for (const KernelRow& row : kKernelRows) {
    if (row.kernel == kernel) known.push_back(named(row.first, row.second));
  }
  throw Error(Code::InvalidArgument, fmt::format("{} on a device: there is no kernel for {}, expected one of {}",
                                                 kernel, named(first, second), fmt::join(known, ", ")));
}

}  // namespace sinew::parallel
