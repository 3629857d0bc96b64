#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include <sinew/parallel/step_graph/graph.hpp>

#include "placed_run.hpp"

namespace sinew::parallel::test {
namespace {

using Sizes = std::map<char, std::int64_t>;

struct Text {
  std::vector<std::string> operands;
  std::string result;
  bool adds = false;
};

Text text_of(const std::string& labels) {
  Text text;
  const std::size_t arrow = labels.find("->");
  text.result = labels.substr(arrow + 2);
  text.operands.emplace_back();
  for (const char c : labels.substr(0, arrow)) {
    text.adds = text.adds || c == '+';
    if (c == ',' || c == '+') {
      text.operands.emplace_back();
    } else {
      text.operands.back() += c;
    }
  }
  return text;
}

/// Single labels first; what shares a dimension has been seen alone elsewhere, or is what is left.
void learn(Sizes& sizes, const std::string& labels, const std::vector<std::int64_t>& shape) {
  std::size_t d = 0;
  for (std::size_t i = 0; i < labels.size(); ++i, ++d) {
    if (labels[i] == '(') {
      i = labels.find(')', i);
    } else {
      sizes[labels[i]] = shape[d];
    }
  }
}

std::int64_t place(const std::string& labels, const Sizes& sizes, const Sizes& at) {
  std::int64_t place = 0;
  for (const char c : labels) {
    if (c != '(' && c != ')') place = place * sizes.at(c) + at.at(c);
  }
  return place;
}

void for_all(const Sizes& sizes, const std::function<void(const Sizes&)>& body) {
  Sizes at;
  for (const auto& [label, size] : sizes) {
    if (size == 0) return;
    at[label] = 0;
  }
  for (;;) {
    body(at);
    auto label = at.rbegin();
    for (; label != at.rend(); ++label) {
      if (++label->second < sizes.at(label->first)) break;
      label->second = 0;
    }
    if (label == at.rend()) return;
  }
}

double& at(Array& a, std::int64_t i) { return a.data[static_cast<std::size_t>(i)]; }
double at(const Array& a, std::int64_t i) { return a.data[static_cast<std::size_t>(i)]; }

void products(const Text& text, const Sizes& sizes, const std::vector<const Array*>& operands, Array& result) {
  for_all(sizes, [&](const Sizes& here) {
    double value = text.adds ? 0 : 1;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const double x = at(*operands[i], place(text.operands[i], sizes, here));
      value = text.adds ? value + x : value * x;
    }
    at(result, place(text.result, sizes, here)) += value;
  });
}

double function_of(const std::string& name, double x) {
  if (name == "tanh") return std::tanh(x);
  if (name == "square") return x * x;
  if (name == "gelu") return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  throw std::runtime_error("no kernel for " + name);
}

double slope_of(const std::string& name, double x) {
  if (name == "tanh") return 1 - std::tanh(x) * std::tanh(x);
  if (name == "square") return 2 * x;
  if (name == "gelu") return (1 + std::erf(x / std::sqrt(2.0))) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
  throw std::runtime_error("no kernel for " + name);
}

using Row = std::function<void(std::int64_t first, std::int64_t width)>;
void for_rows(const Array& x, const Row& body) {
  const std::int64_t width = x.shape.back();
  for (std::int64_t first = 0; first < std::ssize(x.data); first += width) body(first, width);
}

void softmax(const Array& x, Array& y) {
  for_rows(x, [&](std::int64_t first, std::int64_t width) {
    double sum = 0;
    for (std::int64_t i = first; i < first + width; ++i) sum += at(y, i) = std::exp(at(x, i));
    for (std::int64_t i = first; i < first + width; ++i) at(y, i) /= sum;
  });
}

void softmax_backward(const Array& dy, const Array& x, Array& dx) {
  Array y = x;
  softmax(x, y);
  for_rows(x, [&](std::int64_t first, std::int64_t width) {
    double dot = 0;
    for (std::int64_t i = first; i < first + width; ++i) dot += at(dy, i) * at(y, i);
    for (std::int64_t i = first; i < first + width; ++i) at(dx, i) = at(y, i) * (at(dy, i) - dot);
  });
}

double root_mean_square(const Array& x, std::int64_t first, std::int64_t width) {
  double sum = 0;
  for (std::int64_t i = first; i < first + width; ++i) sum += at(x, i) * at(x, i);
  return std::sqrt(sum / static_cast<double>(width) + 1e-3);
}

void norm(const Array& x, const Array& gain, Array& y) {
  for_rows(x, [&](std::int64_t first, std::int64_t width) {
    const double scale = 1 / root_mean_square(x, first, width);
    for (std::int64_t i = 0; i < width; ++i) at(y, first + i) = at(x, first + i) * scale * at(gain, i);
  });
}

/// gain: null, it is the gradient of the gain.
void norm_backward(const Array& dy, const Array& x, const Array* gain, Array& out) {
  for_rows(x, [&](std::int64_t first, std::int64_t width) {
    const double r = root_mean_square(x, first, width);
    double dot = 0;
    for (std::int64_t i = 0; i < width && gain != nullptr; ++i)
      dot += at(dy, first + i) * at(*gain, i) * at(x, first + i);
    for (std::int64_t i = 0; i < width; ++i) {
      if (gain == nullptr) {
        at(out, i) += at(dy, first + i) * at(x, first + i) / r;
      } else {
        at(out, first + i) =
            at(dy, first + i) * at(*gain, i) / r - at(x, first + i) * dot / (static_cast<double>(width) * r * r * r);
      }
    }
  });
}

}  // namespace

Array computed(const ComputeRule& rule, const std::vector<const Array*>& operands,
               const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  Array result{shape, std::vector<double>(static_cast<std::size_t>(elements), 0.0)};
  const std::string& name = rule.function;
  if (name.empty()) {
    const Text text = text_of(rule.labels);
    Sizes sizes;
    for (std::size_t i = 0; i < operands.size(); ++i) learn(sizes, text.operands[i], operands[i]->shape);
    learn(sizes, text.result, shape);
    products(text, sizes, operands, result);
  } else if (name == "softmax") {
    softmax(*operands[0], result);
  } else if (name == "softmax backward 0") {
    softmax_backward(*operands[0], *operands[1], result);
  } else if (name == "norm") {
    norm(*operands[0], *operands[1], result);
  } else if (name.starts_with("norm backward")) {
    norm_backward(*operands[0], *operands[1], operands.size() > 2 ? operands[2] : nullptr, result);
  } else if (name.ends_with(" backward 0")) {
    const std::string of = name.substr(0, name.find(' '));
    for (std::int64_t i = 0; i < elements; ++i) at(result, i) = at(*operands[0], i) * slope_of(of, at(*operands[1], i));
  } else {
    for (std::int64_t i = 0; i < elements; ++i) at(result, i) = function_of(name, at(*operands[0], i));
  }
  return result;
}

}  // namespace sinew::parallel::test
