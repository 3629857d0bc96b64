#include "parameters.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/common/keyed_random.hpp>

namespace gpt {
namespace {

constexpr double kDeviation = 0.02;
constexpr int kWhole = -1;  // no dimension is cut
constexpr double kLeastStep = 1e-3, kMostStep = 0.1;

using sinew::parallel::Rows;
using Start = ParameterInfo::Start;

double value_of(const ParameterInfo& info, const sinew::parallel::KeyedRandom& random, std::int64_t element) {
  switch (info.start) {
    case Start::Zeros: return 0;
    case Start::Ones: return 1;
    case Start::Normal: return info.deviation * random.normal(static_cast<std::uint64_t>(element));
    case Start::Rates: return std::log(static_cast<double>(1 + element % info.shape.back()));
    case Start::Steps: {
      const double step =
          kLeastStep * std::exp(random.uniform(static_cast<std::uint64_t>(element)) * std::log(kMostStep / kLeastStep));
      return step + std::log(-std::expm1(-step));  // softplus of it is the step
    }
  }
  return 0;
}

template <class T, class Round>
void fill(const ParameterInfo& info, const sinew::parallel::KeyedRandom& random, std::int64_t first, std::int64_t last,
          sinew::Buffer into, Round round) {
  auto* out = reinterpret_cast<T*>(into.data);
  for (std::int64_t k = first; k < last; ++k) out[k - first] = round(value_of(info, random, info.whole_number(k)));
}

}  // namespace

std::int64_t ParameterInfo::whole_number(std::int64_t k) const noexcept {
  return sinew::parallel::number_in_whole(shape, box, k);
}

bool ParameterInfo::is_cut() const noexcept {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (box.extent(d) != shape[d]) return true;
  }
  return false;
}

bool ParameterInfo::is_cut_in_experts() const noexcept {
  for (std::size_t d = 1; d < shape.size(); ++d) {
    if (box.extent(d) != shape[d]) return true;
  }
  return false;
}

namespace {

std::int32_t mixer_parameters(const Shape& shape, int block) noexcept {
  if (shape.has_scan(block)) return kScanParameters;
  return kAttentionParameters + (shape.sinks ? 1 : 0);
}

}  // namespace

BlockParameters block_parameters(const Shape& shape, int block) noexcept {
  std::int32_t at = kRootParameters;
  for (int i = 0;; ++i) {
    const std::int32_t mixer = at + 2, norm2 = mixer + mixer_parameters(shape, i);
    const std::int32_t end = norm2 + (shape.has_experts(i) ? 2 + kExpertParameters : 6);
    const BlockParameters here{at, mixer, norm2, norm2 + 2, norm2 + 4, end};
    if (i == block) return here;
    at = here.end;
  }
}

namespace {

/// The dimension that is cut, if any, and what is here of it.
struct Cut {
  int dim = kWhole;
  Rows here{};
};

/// Writes the list.
class Listing {
 public:
  Listing(const Shape& shape, const Part& part) : shape_(shape), part_(part) {}

  std::vector<ParameterInfo> run() && {
    const std::int64_t w = shape_.width;
    add("tokens.weight", {kVocabulary, w}, {0, part_.vocabulary()}, Start::Normal, kDeviation);
    all_.back().uses = 2;  // embedding and head
    add("positions.weight", {shape_.context, w}, {}, Start::Normal, kDeviation);
    norm("final_norm");
    for (int i = 0; i < shape_.layers; ++i) {
      unit_ = fmt::format("blocks.{}", i);
      const std::string in = unit_ + ".";
      const Rows bent = part_.bent(shape_);
      norm(in + (shape_.has_scan(i) ? "scan_norm" : "attention_norm"));
      if (shape_.has_scan(i)) {
        scan(in + "scan.");
      } else {
        attention(in + "attention.");
      }
      norm(in + "mlp_norm");
      if (shape_.has_experts(i)) {
        experts(in);
        continue;
      }
      add(in + "mlp.up.weight", {4 * w, w}, {0, bent}, Start::Normal, kDeviation);
      add(in + "mlp.up.bias", {4 * w}, {0, bent});
      add(in + "mlp.down.weight", {w, 4 * w}, {1, bent}, Start::Normal, narrow());
      add(in + "mlp.down.bias", {w});
    }
    return std::move(all_);
  }

 private:
  /// Of what is added to the residual stream.
  double narrow() const noexcept { return kDeviation / std::sqrt(2.0 * shape_.layers); }

  void add(const std::string& name, std::vector<std::int64_t> of, const Cut& cut = {}, Start start = Start::Zeros,
           double deviation = 0) {
    sinew::parallel::Box box{std::vector<std::int64_t>(of.size()), of};
    if (cut.dim != kWhole) {
      box.first[static_cast<std::size_t>(cut.dim)] = cut.here.first;
      box.last[static_cast<std::size_t>(cut.dim)] = cut.here.last;
    }
    all_.push_back({name, std::move(of), std::move(box), unit_, 1, start, deviation});
  }

  void norm(const std::string& name) {
    add(name + ".weight", {shape_.width}, {}, Start::Ones);
    add(name + ".bias", {shape_.width});
  }

  void attention(const std::string& in) {
    const std::int64_t w = shape_.width, shared = std::int64_t{shape_.shared_heads()} * shape_.head_width();
    const sinew::parallel::HeadCut heads = part_.heads(shape_);
    const Rows mixed = part_.mixed(shape_);
    Cut key_values{};
    if (heads.key_values_cut)
      key_values = {1, {heads.key_values.first * shape_.head_width(), heads.key_values.last * shape_.head_width()}};
    add(in + "queries.weight", {w, w}, {0, mixed}, Start::Normal, kDeviation);
    add(in + "queries.bias", {w}, {0, mixed});
    add(in + "keys_values.weight", {2, shared, w}, key_values, Start::Normal, kDeviation);
    add(in + "keys_values.bias", {2, shared}, key_values);
    add(in + "out.weight", {w, w}, {1, mixed}, Start::Normal, narrow());
    add(in + "out.bias", {w});
    if (shape_.sinks) add(in + "sinks", {shape_.heads}, {0, heads.queries});
  }

  /// `cut`: beside experts, the first dimension, themselves.
  void add_of_experts(const std::string& name, std::vector<std::int64_t> of, const Cut& cut, Start start = Start::Zeros,
                      double deviation = 0) {
    const Rows mine = part_.experts(shape_);
    add(name, std::move(of), cut, start, deviation);
    all_.back().box.first[0] = mine.first;
    all_.back().box.last[0] = mine.last;
    all_.back().of_experts = true;
  }

  void experts(const std::string& in) {
    const std::int64_t w = shape_.width, all = shape_.experts.count, inner = shape_.inner();
    const Rows mine = part_.of_expert(shape_);
    add(in + "router.weight", {all, w}, {}, Start::Normal, kDeviation);
    add_of_experts(in + "experts.up.weight", {all, inner, w}, {1, mine}, Start::Normal, kDeviation);
    add_of_experts(in + "experts.up.bias", {all, inner}, {1, mine});
    add_of_experts(in + "experts.down.weight", {all, w, inner}, {2, mine}, Start::Normal, narrow());
    add_of_experts(in + "experts.down.bias", {all, w}, {});
  }

  void scan(const std::string& in) {
    const std::int64_t w = shape_.width, channels = shape_.channels(), states = kScanStates;
    const std::int64_t steps = shape_.step_rank();
    const Rows mine = part_.channels(shape_);
    const auto spread = [](std::int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); };
    add(in + "in.weight", {2, channels, w}, {1, mine}, Start::Normal, kDeviation);
    add(in + "taps.weight", {channels, kScanTaps}, {0, mine}, Start::Normal, spread(kScanTaps));
    add(in + "taps.bias", {channels}, {0, mine});
    add(in + "dynamics.weight", {steps + 2 * states, channels}, {1, mine}, Start::Normal, spread(channels));
    add(in + "step.weight", {channels, steps}, {0, mine}, Start::Normal, spread(steps));
    add(in + "step.bias", {channels}, {0, mine}, Start::Steps);
    add(in + "rates", {channels, states}, {0, mine}, Start::Rates);
    add(in + "skip", {channels}, {0, mine}, Start::Ones);
    add(in + "out.weight", {w, channels}, {1, mine}, Start::Normal, narrow());
  }

  const Shape& shape_;
  const Part& part_;
  std::string unit_ = "root";
  std::vector<ParameterInfo> all_;
};

}  // namespace

std::vector<ParameterInfo> parameters(const Shape& shape, const Part& part) { return Listing(shape, part).run(); }

void initialise(const ParameterInfo& info, std::uint64_t seed, std::int64_t first, std::int64_t last,
                sinew::DType dtype, sinew::Buffer into) {
  const sinew::parallel::KeyedRandom random(seed, info.path);
  if (dtype == sinew::DType::F64) {
    fill<double>(info, random, first, last, into, [](double x) { return x; });
  } else if (dtype == sinew::DType::F32) {
    fill<float>(info, random, first, last, into, [](double x) { return static_cast<float>(x); });
  } else if (dtype == sinew::DType::BF16) {
    fill<sinew::BFloat16>(info, random, first, last, into,
                          [](double x) { return sinew::to_bfloat16(static_cast<float>(x)); });
  } else {
    throw sinew::Error(sinew::Code::InvalidArgument,
                       fmt::format("'{}' of {}: expected f32, f64 or bf16", info.path, name_of(dtype)));
  }
}

}  // namespace gpt
