#include "parameters.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/random/keyed.hpp>

namespace gpt {
namespace {

constexpr double kDeviation = 0.02;
constexpr int kWhole = -1;  // no dimension is cut

using Start = ParameterInfo::Start;

double value_of(const ParameterInfo& info, const sinew::parallel::KeyedRandom& random, std::int64_t element) {
  switch (info.start) {
    case Start::Zeros: return 0;
    case Start::Ones: return 1;
    case Start::Normal: return info.deviation * random.normal(static_cast<std::uint64_t>(element));
  }
  return 0;
}

/// The number in the whole of element k of a box.
std::int64_t whole_number(const ParameterInfo& info, std::int64_t k) {
  std::int64_t number = 0, stride = 1;
  for (std::size_t d = info.shape.size(); d-- > 0;) {
    number += (info.box.first[d] + k % info.box.extent(d)) * stride;
    k /= info.box.extent(d);
    stride *= info.shape[d];
  }
  return number;
}

template <class T, class Round>
void fill(const ParameterInfo& info, const sinew::parallel::KeyedRandom& random, std::int64_t first, std::int64_t last,
          sinew::Buffer into, Round round) {
  auto* out = reinterpret_cast<T*>(into.data);
  for (std::int64_t k = first; k < last; ++k) out[k - first] = round(value_of(info, random, whole_number(info, k)));
}

}  // namespace

bool ParameterInfo::is_cut() const noexcept {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (box.extent(d) != shape[d]) return true;
  }
  return false;
}

std::vector<ParameterInfo> parameters(const Shape& shape, const Part& part) {
  const std::int64_t w = shape.width;
  const double narrow = kDeviation / std::sqrt(2.0 * shape.layers);  // of what is added to the residual stream
  using sinew::parallel::Rows;
  std::vector<ParameterInfo> all;
  std::string unit = "root";
  const auto add = [&](const std::string& name, std::vector<std::int64_t> of, int cut_dim = kWhole, Rows cut = {},
                       Start start = Start::Zeros, double deviation = 0) {
    sinew::parallel::Box box{std::vector<std::int64_t>(of.size()), of};
    if (cut_dim != kWhole) {
      box.first[static_cast<std::size_t>(cut_dim)] = cut.first;
      box.last[static_cast<std::size_t>(cut_dim)] = cut.last;
    }
    all.push_back({name, std::move(of), std::move(box), unit, 1, start, deviation});
  };
  const Rows mixed = part.mixed(shape), bent = part.bent(shape);
  add("tokens.weight", {kVocabulary, w}, 0, part.vocabulary(), Start::Normal, kDeviation);
  all.back().uses = 2;  // embedding and head
  add("positions.weight", {shape.context, w}, kWhole, {}, Start::Normal, kDeviation);
  add("final_norm.weight", {w}, kWhole, {}, Start::Ones);
  add("final_norm.bias", {w});
  for (int i = 0; i < shape.layers; ++i) {
    unit = fmt::format("blocks.{}", i);
    const std::string in = unit + ".";
    add(in + "attention_norm.weight", {w}, kWhole, {}, Start::Ones);
    add(in + "attention_norm.bias", {w});
    add(in + "attention.qkv.weight", {3, w, w}, 1, mixed, Start::Normal, kDeviation);
    add(in + "attention.qkv.bias", {3, w}, 1, mixed);
    add(in + "attention.out.weight", {w, w}, 1, mixed, Start::Normal, narrow);
    add(in + "attention.out.bias", {w});
    add(in + "mlp_norm.weight", {w}, kWhole, {}, Start::Ones);
    add(in + "mlp_norm.bias", {w});
    add(in + "mlp.up.weight", {4 * w, w}, 0, bent, Start::Normal, kDeviation);
    add(in + "mlp.up.bias", {4 * w}, 0, bent);
    add(in + "mlp.down.weight", {w, 4 * w}, 1, bent, Start::Normal, narrow);
    add(in + "mlp.down.bias", {w});
  }
  return all;
}

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
