#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/common/user_code.hpp>
#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <sinew/parallel/invariant/exact_sum.hpp>
#include <sinew/parallel/kernels/device_kernels.hpp>

namespace sinew::parallel {
namespace {

/// Adds the square of x to a sum. A sum in double is rounded, an ExactSum is exact.
void add_square(double& sum, double x) noexcept { sum += x * x; }
void add_square(ExactSum& sum, double x) noexcept { sum.add_square(x); }
/// Replaces each sum by its total over the ranks. An ExactSum consists of integers, so its total does not depend on the
/// order of the ranks.
void sum_over(Communicator& ranks, std::span<double> sums, const CallOptions& options) {
  ranks.all_reduce(sums, ReduceOp::Sum, options).get();
}
void sum_over(Communicator& ranks, std::span<ExactSum> sums, const CallOptions& options) {
  std::vector<std::int64_t> words;
  for (ExactSum& sum : sums) words.insert(words.end(), sum.words().begin(), sum.words().end());
  CallOptions any_order = options;
  any_order.determinism = Determinism::Fast;
  ranks.all_reduce(words, ReduceOp::Sum, any_order).get();
  auto from = words.begin();
  for (ExactSum& sum : sums) {
    std::copy_n(from, ExactSum::kWords, sum.words().begin());
    from += ExactSum::kWords;
  }
}
bool is_finite(double sum) noexcept { return std::isfinite(sum); }
bool is_finite(const ExactSum& sum) noexcept { return sum.is_finite(); }
void make_nan(double& sum) noexcept { sum = std::numeric_limits<double>::quiet_NaN(); }
void make_nan(ExactSum& sum) noexcept { sum.add(std::numeric_limits<double>::quiet_NaN()); }
double value_of(double sum) noexcept { return sum; }
double value_of(const ExactSum& sum) noexcept { return sum.value(); }

template <class T, class Sum, class Read>
Sum sum_of_squares(const OwnedPart& part, const Read& read) {
  const auto* g = reinterpret_cast<const T*>(part.gradient.data);
  Sum sum{};
  for (std::int64_t i = 0; i < part.last - part.first; ++i) add_square(sum, read(g[i]));
  return sum;
}

template <class Sum>
Sum sum_of_squares(const OwnedPart& part) {
  switch (part.gradient_dtype()) {
    case DType::F64: return sum_of_squares<double, Sum>(part, [](double x) { return x; });
    case DType::F32: return sum_of_squares<float, Sum>(part, [](float x) { return static_cast<double>(x); });
    case DType::BF16:
      return sum_of_squares<std::uint16_t, Sum>(part, [](std::uint16_t x) { return double{to_float(BFloat16{x})}; });
    case DType::F16:
      return sum_of_squares<std::uint16_t, Sum>(part, [](std::uint16_t x) { return double{to_float(Half{x})}; });
    default:
      throw Error(Code::InvalidArgument,
                  fmt::format("gradient_norm: the gradient of {} is of {}, expected f16, bf16, f32 or f64",
                              part.parameter, name_of(part.gradient_dtype())));
  }
}

/// One sum for each part, whose gradients are in device memory.
template <class Sum>
std::vector<Sum> squares_on_device(Copies& copies, std::span<const OwnedPart> parts);

/// Kernels make sums of runs of elements. The host adds these in the order of the elements.
template <>
std::vector<double> squares_on_device(Copies& copies, std::span<const OwnedPart> parts) {
  const auto runs_of = [](const OwnedPart& p) { return DeviceKernels::square_sums(p.last - p.first); };
  std::int64_t all = 0;
  for (const OwnedPart& p : parts) all += runs_of(p);
  std::vector<double> runs(static_cast<std::size_t>(all));
  if (all != 0) {
    const Memory partial = copies.allocate(runs.size() * sizeof(double));
    copies.zero(partial.buffer());  // no kernel runs for an empty part
    DeviceKernels kernels(copies.device());
    auto* to = reinterpret_cast<double*>(partial.buffer().data);
    for (const OwnedPart& p : parts) {
      kernels.squares(p.gradient_dtype(), p.gradient.data, p.last - p.first, to);
      to += runs_of(p);
    }
    copies.begin({reinterpret_cast<std::byte*>(runs.data()), partial.buffer().bytes}, partial.buffer());
    copies.settle();
  }
  std::vector<double> sums;
  auto first = runs.begin();
  for (const OwnedPart& p : parts) {
    sums.push_back(std::accumulate(first, first + runs_of(p), 0.0));
    first += runs_of(p);
  }
  return sums;
}

/// An exact sum needs each element on the host.
template <>
std::vector<ExactSum> squares_on_device(Copies& copies, std::span<const OwnedPart> parts) {
  std::vector<ExactSum> sums;
  for (const OwnedPart& p : parts) {
    std::vector<std::byte> host(p.gradient.bytes);
    OwnedPart here = p;
    here.gradient = {host.data(), host.size()};
    if (!host.empty()) copies.begin(here.gradient, p.gradient);
    copies.settle();
    sums.push_back(sum_of_squares<ExactSum>(here));
  }
  return sums;
}

/// If a device lacks memory, the other ranks learn of it.
template <class Sum>
std::vector<Sum> squares_of(DataParallel& data, std::span<const OwnedPart> parts) {
  const auto is_on_device = [](const OwnedPart& p) { return p.gradient.place.kind == MemoryKind::Device; };
  if (std::ranges::any_of(parts, is_on_device)) {
    data.settle();
    const auto on_device = [&] { return squares_on_device<Sum>(data.memory().copies(), parts); };
    Mesh& mesh = data.mesh();
    if (mesh.groups().empty()) return on_device();
    return run_user_code(
        mesh.along(mesh.groups().front()), [] { return "gradient_norm on a device"; }, on_device);
  }
  std::vector<Sum> sums;
  for (const OwnedPart& p : parts) sums.push_back(sum_of_squares<Sum>(p));
  return sums;
}

/// Ends the groups of the mesh that are not the step's own, because other ranks may wait in them for this rank.
void end_other_groups(DataParallel& data, const std::string& why) {
  Mesh& mesh = data.mesh();
  for (const std::string& axes : mesh.groups()) {
    Communicator& ranks = mesh.along(axes);
    if (ranks.size() > 1 && &data.along(mesh, axes) == &ranks) ranks.abort(why);
  }
}

template <class Sum>
double norm(DataParallel& data, std::span<const OwnedPart> parts, const CallOptions& options) {
  Mesh& mesh = data.mesh();
  const std::vector<DataParameter>& parameters = data.parameters();
  require_sums(data.protocol(), "gradient_norm()", parts);
  // All ranks find the same groups, in the same order, before any of them communicates.
  std::vector<Communicator*> groups{nullptr};  // null: for gradients that each rank holds whole
  for (const std::string& group : mesh.groups()) {
    Communicator* ranks = &data.along(mesh, group);
    if (std::ranges::find(groups, ranks) == groups.end()) groups.push_back(ranks);
  }
  std::map<std::string_view, std::size_t> group_of{{"", 0}};
  for (const DataParameter& p : parameters) {
    if (const auto [place, is_new] = group_of.emplace(p.spread, 0); is_new)
      place->second = static_cast<std::size_t>(std::ranges::find(groups, &data.along(mesh, p.spread)) - groups.begin());
  }
  for (const OwnedPart& part : parts) {
    if (part.parameter < 0 || static_cast<std::size_t>(part.parameter) >= parameters.size())
      throw Error(Code::InvalidArgument, fmt::format("gradient_norm: a part of parameter {}, of which there are {}",
                                                     part.parameter, parameters.size()));
  }
  std::vector<Sum> sums(groups.size());
  const std::vector<Sum> of_parts = squares_of<Sum>(data, parts);
  for (std::size_t i = 0; i < parts.size(); ++i)
    sums[group_of[parameters[static_cast<std::size_t>(parts[i].parameter)].spread]] += of_parts[i];
  if (!data.sharded_axis().empty()) sum_over(data.along(mesh, data.sharded_axis()), std::span<Sum>(sums), options);
  // Ranks of other pipeline stages may have parts for groups for which this rank has none. So all ranks sum over every
  // group.
  Sum all = sums[0];
  // The sums of one group tell its ranks only. So a rank that knows of a sum that is not finite spoils the sums of all
  // groups after it, until the ranks along all axes know.
  const auto finite = [](const Sum& sum) { return is_finite(sum); };
  bool is_spoilt = !std::ranges::all_of(sums, finite);
  for (std::size_t g = 1; g < groups.size(); ++g) {
    if (is_spoilt) make_nan(sums[g]);
    sum_over(*groups[g], std::span<Sum>(&sums[g], 1), options);
    is_spoilt = is_spoilt || !is_finite(sums[g]);
    all += sums[g];
  }
  return std::sqrt(value_of(all));
}

}  // namespace

double gradient_norm(DataParallel& data, std::span<const OwnedPart> parts, const CallOptions& options) {
  try {
    return options.determinism == Determinism::LayoutInvariant ? norm<ExactSum>(data, parts, options)
                                                               : norm<double>(data, parts, options);
  } catch (const Error& e) {
    if (e.code() == Code::Aborted || e.code() == Code::Mismatch) data.protocol().end(e.what());
    if (!data.protocol().ended().empty()) end_other_groups(data, data.protocol().ended());
    throw;
  }
}

double clip_scale(double norm, double largest) {
  const double scale = largest / (norm + 1e-6);
  if (std::isnan(norm)) return norm;
  return scale < 1 ? scale : 1;
}

}  // namespace sinew::parallel
