#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/data/gradient_norm.hpp>

namespace sinew::parallel {
namespace {

template <class T, class Read>
double sum_of_squares(const OwnedPart& part, const Read& read) {
  const auto* g = reinterpret_cast<const T*>(part.gradient.data);
  double sum = 0;
  for (std::int64_t i = 0; i < part.last - part.first; ++i) {
    const double x = read(g[i]);
    sum += x * x;
  }
  return sum;
}

double sum_of_squares(const OwnedPart& part) {
  switch (part.gradient_dtype()) {
    case DType::F64: return sum_of_squares<double>(part, [](double x) { return x; });
    case DType::F32: return sum_of_squares<float>(part, [](float x) { return static_cast<double>(x); });
    case DType::BF16:
      return sum_of_squares<std::uint16_t>(part, [](std::uint16_t x) { return double{to_float(BFloat16{x})}; });
    case DType::F16:
      return sum_of_squares<std::uint16_t>(part, [](std::uint16_t x) { return double{to_float(Half{x})}; });
    default:
      throw Error(Code::InvalidArgument,
                  fmt::format("gradient_norm: the gradient of {} is of {}, expected f16, bf16, f32 or f64",
                              part.parameter, name_of(part.gradient_dtype())));
  }
}

}  // namespace

double gradient_norm(DataParallel& data, Mesh& mesh, std::span<const OwnedPart> parts,
                     const std::vector<std::string>& spread, const CallOptions& options) {
  if (spread.size() != data.parameters().size())
    throw Error(Code::InvalidArgument, fmt::format("gradient_norm: axes for {} parameters, expected them for {}",
                                                   spread.size(), data.parameters().size()));
  // On all ranks alike, before any of them communicates.
  std::vector<Communicator*> groups{nullptr};  // none: what each rank holds all of
  for (const std::string& group : mesh.groups()) {
    Communicator* ranks = &mesh.along(group);
    if (std::ranges::find(groups, ranks) == groups.end()) groups.push_back(ranks);
  }
  std::map<std::string_view, std::size_t> group_of{{"", 0}};
  for (const std::string& axes : spread) {
    if (const auto [place, is_new] = group_of.emplace(axes, 0); is_new)
      place->second = static_cast<std::size_t>(std::ranges::find(groups, &mesh.along(axes)) - groups.begin());
  }
  std::vector<double> sums(groups.size());
  for (const OwnedPart& part : parts) {
    if (part.parameter < 0 || static_cast<std::size_t>(part.parameter) >= spread.size())
      throw Error(Code::InvalidArgument, fmt::format("gradient_norm: a part of parameter {}, of which there are {}",
                                                     part.parameter, spread.size()));
    sums[group_of[spread[static_cast<std::size_t>(part.parameter)]]] += sum_of_squares(part);
  }
  if (!data.sharded_axis().empty()) mesh.along(data.sharded_axis()).all_reduce(sums, ReduceOp::Sum, options).get();
  // Every group, whether this rank has a part for it or not: ranks of other stages may.
  double all = sums[0];
  for (std::size_t g = 1; g < groups.size(); ++g) {
    groups[g]->all_reduce(std::span(&sums[g], 1), ReduceOp::Sum, options).get();
    all += sums[g];
  }
  return std::sqrt(all);
}

double clip_scale(double norm, double largest) {
  const double scale = largest / (norm + 1e-6);
  if (std::isnan(norm)) return norm;
  return scale < 1 ? scale : 1;
}

}  // namespace sinew::parallel
