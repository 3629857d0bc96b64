#include <algorithm>

#include <sinew/parallel/distributed_tensor/label_space.hpp>
#include <sinew/parallel/step_graph/placed/labels.hpp>

namespace sinew::parallel {

LabelSpace::LabelSpace(const std::string& rule, std::span<const std::vector<std::int64_t>> extents,
                       const std::string& only) {
  const Labels labels = split_labels(rule);
  std::vector<std::string> tensors = labels.operands;
  tensors.insert(tensors.end(), labels.results.begin(), labels.results.end());
  std::string order;
  const auto add = [&](const std::string& tensor) {
    for (const char c : tensor) {
      const bool wanted = only.empty() || only.find(c) != std::string::npos;
      if (wanted && order.find(c) == std::string::npos) order += c;
    }
  };
  add(labels.results.front());
  for (const std::string& tensor : tensors) add(tensor);
  extents_.assign(order.size(), 1);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::vector<std::int64_t>& strides = strides_.emplace_back(order.size(), 0);
    std::int64_t stride = 1;
    for (std::size_t d = tensors[t].size(); d-- > 0;) {
      if (const std::size_t place = order.find(tensors[t][d]); place != std::string::npos) {
        strides[place] = stride;
        extents_[place] = extents[t][d];
      }
      stride *= extents[t][d];
    }
  }
  for (const std::int64_t extent : extents_) places_ *= extent;
}

}  // namespace sinew::parallel
