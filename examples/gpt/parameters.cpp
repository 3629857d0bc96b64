#include "parameters.hpp"

#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/random/keyed.hpp>

namespace gpt {
namespace {

constexpr double kDeviation = 0.02;

using Start = ParameterInfo::Start;

double value_of(const ParameterInfo& info, const sinew::parallel::KeyedRandom& random, std::int64_t element) {
  switch (info.start) {
    case Start::Zeros: return 0;
    case Start::Ones: return 1;
    case Start::Normal: return info.deviation * random.normal(static_cast<std::uint64_t>(element));
  }
  return 0;
}

template <class T, class Round>
void fill(const ParameterInfo& info, const sinew::parallel::KeyedRandom& random, std::int64_t first, std::int64_t last,
          sinew::Buffer into, Round round) {
  auto* out = reinterpret_cast<T*>(into.data);
  for (std::int64_t k = first; k < last; ++k) out[k - first] = round(value_of(info, random, k));
}

}  // namespace

std::int64_t ParameterInfo::elements() const noexcept {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies{});
}

std::vector<ParameterInfo> parameters(const Shape& shape) {
  const std::int64_t w = shape.width;
  const double narrow = kDeviation / std::sqrt(2.0 * shape.layers);  // of what is added to the residual stream
  std::vector<ParameterInfo> all{
      {"tokens.weight", {kVocabulary, w}, "root", 2, Start::Normal, kDeviation},  // embedding and head
      {"positions.weight", {shape.context, w}, "root", 1, Start::Normal, kDeviation},
      {"final_norm.weight", {w}, "root", 1, Start::Ones},
      {"final_norm.bias", {w}, "root"}};
  for (int i = 0; i < shape.layers; ++i) {
    const std::string unit = fmt::format("blocks.{}", i);
    const auto add = [&](const char* name, std::vector<std::int64_t> of, Start start = Start::Zeros,
                         double deviation = 0) {
      all.push_back({unit + "." + name, std::move(of), unit, 1, start, deviation});
    };
    add("attention_norm.weight", {w}, Start::Ones);
    add("attention_norm.bias", {w});
    add("attention.qkv.weight", {3 * w, w}, Start::Normal, kDeviation);
    add("attention.qkv.bias", {3 * w});
    add("attention.out.weight", {w, w}, Start::Normal, narrow);
    add("attention.out.bias", {w});
    add("mlp_norm.weight", {w}, Start::Ones);
    add("mlp_norm.bias", {w});
    add("mlp.up.weight", {4 * w, w}, Start::Normal, kDeviation);
    add("mlp.up.bias", {4 * w});
    add("mlp.down.weight", {w, 4 * w}, Start::Normal, narrow);
    add("mlp.down.bias", {w});
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
