#include "shape.hpp"

#include <cstdlib>
#include <string>
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

}  // namespace

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
  if (!wrong.empty())
    throw sinew::Error(sinew::Code::InvalidArgument, fmt::format("model: {}", fmt::join(wrong, "; ")));
}

}  // namespace gpt
