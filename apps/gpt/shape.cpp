#include "shape.hpp"

#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>

namespace gpt {
namespace {

constexpr int kMost = 1 << 20, kMostLayers = 1 << 12;

int nearest_divisor(int of, int to) {
  int best = 1;
  for (int d = 1; d <= of; ++d) {
    if (of % d == 0 && std::abs(d - to) < std::abs(best - to)) best = d;
  }
  return best;
}

std::string to_string(const ExpertsShape& e) {
  if (e.count == 0) return "";
  return fmt::format(
      ", experts {} in every {} block(s), top {}, {}, groups {} of {}, capacity {}{}, balance {}, z {}, bias {}",
      e.count, e.every, e.top_k, e.sigmoid ? "sigmoid" : "softmax", e.chosen, e.groups, e.capacity,
      e.drop_by_position ? " by position" : "", e.auxiliary, e.z, e.bias_rate);
}

/// What is wrong with them.
void judge(const ExpertsShape& e, int layers, std::vector<std::string>& wrong) {
  const auto whole = [&](const char* name, int value, int most) {
    if (value < 1 || value > most) wrong.push_back(fmt::format("{} {}, expected 1 to {}", name, value, most));
  };
  whole("experts of a block", e.count, kMost);
  whole("experts in every so many blocks", e.every, layers);
  whole("groups of experts", e.groups, e.count);
  whole("groups chosen", e.chosen, e.groups);
  if (e.groups > 0 && e.count % e.groups != 0)
    wrong.push_back(fmt::format("groups {} do not divide experts {}, expected {}", e.groups, e.count,
                                nearest_divisor(e.count, e.groups)));
  if (e.groups > 0) whole("experts for each token", e.top_k, e.count / e.groups * e.chosen);
  for (const auto& [name, value] :
       {std::pair("capacity", e.capacity), {"balance", e.auxiliary}, {"z", e.z}, {"bias rate", e.bias_rate}}) {
    if (!(value >= 0) || !std::isfinite(value)) wrong.push_back(fmt::format("{} {}, expected 0 or more", name, value));
  }
}

}  // namespace

std::string to_string(const Shape& shape) {
  return fmt::format(
             "layers {}, heads {}, width {}, context {}, key-value heads {}, mamba {}{}, sinks {}, dropout {}, "
             "document "
             "end {}",
             shape.layers, shape.heads, shape.width, shape.context, shape.shared_heads(), shape.mamba_every,
             shape.mamba2 ? " by heads" : "", shape.sinks, shape.dropout, shape.document_end) +
         to_string(shape.experts);
}

void require_shape(const Shape& shape) {
  std::vector<std::string> wrong;
  const auto expect = [&](const char* name, int value, int most) {
    if (value < 1 || value > most) wrong.push_back(fmt::format("{} {}, expected 1 to {}", name, value, most));
  };
  expect("layers", shape.layers, kMostLayers);
  expect("heads", shape.heads, kMost);
  expect("width", shape.width, kMost);
  expect("context", shape.context, kMost);
  if (wrong.empty() && shape.width % shape.heads != 0)
    wrong.push_back(fmt::format("heads {} do not divide width {}, expected heads {}", shape.heads, shape.width,
                                nearest_divisor(shape.width, shape.heads)));
  if (wrong.empty() &&
      (shape.shared_heads() < 1 || shape.key_value_heads < 0 || shape.heads % shape.shared_heads() != 0))
    wrong.push_back(fmt::format("key-value heads {} do not divide heads {}, expected {}, or 0: as many",
                                shape.key_value_heads, shape.heads,
                                nearest_divisor(shape.heads, shape.key_value_heads)));
  if (shape.mamba_every < 0 || (wrong.empty() && shape.mamba_every > shape.layers))
    wrong.push_back(fmt::format("mamba {}, expected 0 to {}, as there are layers", shape.mamba_every, shape.layers));
  if (shape.sinks && !shape.has_attention())
    wrong.push_back("sinks of attention heads, and every block has a scan: expected mamba 0 or 2, or no sinks");
  if (!(shape.dropout >= 0 && shape.dropout < 1))
    wrong.push_back(fmt::format("dropout {}, expected 0 to below 1", shape.dropout));
  if (shape.document_end < -1 || shape.document_end >= kVocabulary)
    wrong.push_back(
        fmt::format("document end {}, expected a byte, 0 to {}, or -1: none", shape.document_end, kVocabulary - 1));
  if (shape.document_end >= 0 && shape.mamba_every > 0)
    wrong.push_back("documents that end, and blocks whose scan goes on over their ends: expected one of them");
  if (shape.experts.count < 0) wrong.push_back(fmt::format("experts {}, expected 0 or more", shape.experts.count));
  if (shape.experts.count > 0) judge(shape.experts, shape.layers, wrong);
  if (!wrong.empty())
    throw sinew::Error(sinew::Code::InvalidArgument, fmt::format("model: {}", fmt::join(wrong, "; ")));
}

}  // namespace gpt
