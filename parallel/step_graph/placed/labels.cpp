#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include <sinew/parallel/step_graph/placed/labels.hpp>

namespace sinew::parallel {
namespace {

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string fault_of_tensor(std::string_view tensor) {
  std::string seen;
  bool inside = false;
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    const char c = tensor[i];
    if (c == '(' || c == ')') {
      if (inside == (c == '(') || (c == ')' && tensor[i - 1] == '(')) return "its brackets do not match";
      inside = c == '(';
      continue;
    }
    if (std::isalpha(static_cast<unsigned char>(c)) == 0) return fmt::format("'{}' is no letter", c);
    if (seen.find(c) != std::string::npos) return fmt::format("it has '{}' twice", c);
    seen += c;
  }
  return inside ? "its brackets do not match" : "";
}

}  // namespace

Labels split_labels(std::string_view labels) {
  Labels found;
  const auto fault = [&](std::string_view why) {
    found.fault = fmt::format("labels '{}': {}, expected such as \"ri,oi->ro\"", labels, why);
    return found;
  };
  const std::size_t arrow = labels.find("->");
  if (arrow == std::string_view::npos) return fault("no '->'");
  const std::string_view operands = labels.substr(0, arrow);
  found.adds = operands.find('+') != std::string_view::npos;
  found.operands = split(operands, found.adds ? '+' : ',');
  found.results = split(labels.substr(arrow + 2), ',');
  for (const auto* tensors : {&found.operands, &found.results}) {
    for (const std::string& tensor : *tensors) {
      const std::string wrong = fault_of_tensor(tensor);
      if (!wrong.empty()) return fault(fmt::format("of '{}' {}", tensor, wrong));
    }
  }
  for (const std::string& operand : found.operands) {
    const auto is_lost = [&](char c) {
      return std::isalpha(static_cast<unsigned char>(c)) != 0 && found.results.front().find(c) == std::string::npos;
    };
    if (found.adds && (found.results.size() > 1 || std::ranges::any_of(operand, is_lost)))
      return fault("a sum of operands has one result with all their labels");
  }
  return found;
}

std::vector<std::string> dims_of(std::string_view tensor) {
  std::vector<std::string> dims;
  bool inside = false;
  for (const char c : tensor) {
    if (c == '(') dims.emplace_back();
    if (c == '(' || c == ')') {
      inside = c == '(';
    } else if (inside) {
      dims.back() += c;
    } else {
      dims.emplace_back(1, c);
    }
  }
  return dims;
}

}  // namespace sinew::parallel
