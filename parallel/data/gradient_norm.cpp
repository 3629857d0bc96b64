#include <cmath>
#include <map>
#include <set>

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
  switch (part.dtype) {
    case DType::F64: return sum_of_squares<double>(part, [](double x) { return x; });
    case DType::F32: return sum_of_squares<float>(part, [](float x) { return static_cast<double>(x); });
    case DType::BF16:
      return sum_of_squares<std::uint16_t>(part, [](std::uint16_t x) { return double{to_float(BFloat16{x})}; });
    case DType::F16:
      return sum_of_squares<std::uint16_t>(part, [](std::uint16_t x) { return double{to_float(Half{x})}; });
    default:
      throw Error(Code::InvalidArgument,
                  fmt::format("gradient_norm: parameter {} is of {}, expected f16, bf16, f32 or f64", part.parameter,
                              name_of(part.dtype)));
  }
}

}  // namespace

double gradient_norm(DataParallel& data, Mesh& mesh, std::span<const OwnedPart> parts,
                     const std::vector<std::string>& spread, const CallOptions& options) {
  if (spread.size() != data.parameters().size())
    throw Error(Code::InvalidArgument, fmt::format("gradient_norm: axes for {} parameters, expected them for {}",
                                                   spread.size(), data.parameters().size()));
  const std::string& sharded = data.sharded_axis();
  const auto ranks_of = [&](std::int32_t parameter) -> Communicator* {
    const std::string& own = spread[static_cast<std::size_t>(parameter)];
    const std::string axes = own + (own.empty() || sharded.empty() ? "" : "-") + sharded;
    return axes.empty() ? nullptr : &mesh.along(axes);
  };
  double all = 0;  // of what no axis spreads
  std::map<Communicator*, double> sums;
  for (const OwnedPart& part : parts) {
    Communicator* ranks = ranks_of(part.parameter);
    (ranks == nullptr ? all : sums[ranks]) += sum_of_squares(part);
  }
  // Every group of the mesh, in its order, whether this rank has a part for it or not: others may.
  std::set<Communicator*> summed;
  for (const std::string& group : mesh.groups()) {
    Communicator& ranks = mesh.along(group);
    if (!summed.insert(&ranks).second) continue;
    double sum = sums[&ranks];
    ranks.all_reduce(std::span(&sum, 1), ReduceOp::Sum, options).get();
    all += sum;
  }
  return std::sqrt(all);
}

double clip_scale(double norm, double largest) {
  const double scale = largest / (norm + 1e-6);
  if (std::isnan(norm)) return norm;
  return scale < 1 ? scale : 1;
}

}  // namespace sinew::parallel
