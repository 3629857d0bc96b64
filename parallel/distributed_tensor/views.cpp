#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/parallel/distributed_tensor/label_space.hpp>
#include <sinew/parallel/distributed_tensor/operation_labels.hpp>
#include <sinew/parallel/distributed_tensor/run_operation.hpp>
#include <sinew/parallel/distributed_tensor/views.hpp>

namespace sinew::parallel {
namespace {

/// Replaces an extent of -1, and checks that the shape has the elements of x.
std::vector<std::int64_t> complete_shape(const TensorSpec& x, std::vector<std::int64_t> shape) {
  const std::string asked = shape_text(shape);
  std::int64_t known = 1;
  auto open = shape.end();
  for (auto extent = shape.begin(); extent != shape.end(); ++extent) {
    if (*extent == -1 && open == shape.end()) {
      open = extent;
    } else if (*extent < 0) {
      refuse_operation(
          "reshape", fmt::format("{} to {}; expected extents of 0 or more, and one -1 at most", x.to_string(), asked));
    } else {
      known *= *extent;
    }
  }
  if (open != shape.end() && known > 0) {
    *open = x.elements() / known;
    known *= *open;
  }
  if (known != x.elements() || (open != shape.end() && *open == -1))
    refuse_operation("reshape",
                     fmt::format("{} to {}; expected a shape of {} elements", x.to_string(), asked, x.elements()));
  return shape;
}

/// Writes the labels of a reshape. Dimensions are grouped: each group of dimensions of x has as many elements as a
/// group of the result. If both sides of a group are several dimensions, only a common outermost part can be cut.
class ReshapeLabels {
 public:
  std::string from, to, whole;
  std::vector<std::pair<char, std::int64_t>> extents;

  ReshapeLabels(const std::vector<std::int64_t>& x, const std::vector<std::int64_t>& result) {
    if (std::ranges::count(x, 0) > 0) {
      unrelated(x, result);
      return;
    }
    std::size_t i = 0, k = 0;
    while (i < x.size() || k < result.size()) {
      std::vector<std::int64_t> left, right;
      std::int64_t a = 1, b = 1;
      if (i < x.size()) left.push_back(x[i]), a *= x[i++];
      if (k < result.size()) right.push_back(result[k]), b *= result[k++];
      while (a != b) {
        if (a < b) {
          left.push_back(x[i]), a *= x[i++];
        } else {
          right.push_back(result[k]), b *= result[k++];
        }
      }
      add_group(left, right);
    }
  }

 private:
  /// A tensor without elements, or a group that has no common outer part: nothing may be cut.
  void unrelated(const std::vector<std::int64_t>& x, const std::vector<std::int64_t>& result) {
    add_whole(from, x);
    add_whole(to, result);
  }
  void add_whole(std::string& side, const std::vector<std::int64_t>& shape) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      side += letters_.next();
      whole += side.back();
    }
  }

  void add_group(const std::vector<std::int64_t>& left, const std::vector<std::int64_t>& right) {
    if (left.size() == 1 && right.size() == 1) {
      from += letters_.next();
      to += from.back();
      return;
    }
    if (left.size() <= 1 || right.size() <= 1) return add_split(left, right);
    const std::int64_t outer = std::gcd(left.front(), right.front());
    if (outer <= 1) return unrelated(left, right);
    // Both outermost dimensions begin with a common label. Labels within them are whole.
    const char common = letters_.next();
    extents.emplace_back(common, outer);
    add_outer(from, left, common, outer);
    add_outer(to, right, common, outer);
  }
  void add_outer(std::string& side, const std::vector<std::int64_t>& shape, char common, std::int64_t outer) {
    const char inner = letters_.next();
    extents.emplace_back(inner, shape.front() / outer);
    whole += inner;
    side += fmt::format("({}{})", common, inner);
    add_whole(side, {shape.begin() + 1, shape.end()});
  }

  /// One dimension of one side is all dimensions of the other side. Dimensions of one place have labels of their own.
  /// So the label of the outermost dimension with more places can be cut.
  void add_split(const std::vector<std::int64_t>& left, const std::vector<std::int64_t>& right) {
    const bool splits = left.size() <= 1;
    const std::vector<std::int64_t>& many = splits ? right : left;
    const std::vector<std::int64_t>& one = splits ? left : right;
    std::string inner, apart;
    for (const std::int64_t extent : many) {
      const char label = letters_.next();
      apart += label;
      extents.emplace_back(label, extent);
      if (extent == 1) {
        whole += label;
      } else {
        inner += label;
      }
    }
    std::string together;
    if (!one.empty() && inner.empty()) {
      together = letters_.next();
      whole += together;
    } else if (!one.empty()) {
      together = inner.size() == 1 ? inner : "(" + inner + ")";
    }
    (splits ? to : from) += apart;
    (splits ? from : to) += together;
  }

  LabelLetters letters_;
};

}  // namespace

Operation permute_operation(const TensorSpec& x, std::span<const int> order) {
  require_float_dtypes("permute", std::array{x});
  LabelLetters letters;
  const std::string labels = letters.next(x.shape.size());
  TensorSpec out{"permute", x.dtype, {}, {}};
  std::string permuted;
  for (const int dim : order) {
    const std::size_t d = dimension_of("permute", x, dim);
    if (permuted.find(labels[d]) != std::string::npos)
      refuse_operation("permute",
                       fmt::format("dimension {} of {} is named twice; expected each once", d, x.to_string()));
    permuted += labels[d];
    out.shape.push_back(x.shape[d]);
  }
  if (order.size() != x.shape.size())
    refuse_operation("permute", fmt::format("{} by an order of {} dimensions; expected all of its {}", x.to_string(),
                                            order.size(), x.shape.size()));
  return {.name = "permute",
          .rule = {.labels = join_labels(std::array{labels}, std::array{permuted}), .linear = {0}},
          .operands = {x},
          .results = {std::move(out)}};
}

DistributedTensor permute(const DistributedTensor& x, std::span<const int> order, const CallOptions& options) {
  const Operation op = permute_operation(x.spec(), order);
  return run_single(op, {&x}, options, [&]<class T>(LocalParts<T>& parts) {
    const LabelSpace space(op.rule.labels, std::array{parts.in_extents(0), parts.out_extents(0)});
    const T* from = parts.in(0);
    T* to = parts.out(0);
    space.template walk<2>({0, 1}, [&](const auto& at) { to[at[1]] = from[at[0]]; });
  });
}

DistributedTensor transpose(const DistributedTensor& x, int dim0, int dim1, const CallOptions& options) {
  std::vector<int> order(x.spec().shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[dimension_of("transpose", x.spec(), dim0)], order[dimension_of("transpose", x.spec(), dim1)]);
  return permute(x, order, options);
}

Operation reshape_operation(const TensorSpec& x, std::vector<std::int64_t> shape) {
  require_float_dtypes("reshape", std::array{x});
  shape = complete_shape(x, std::move(shape));
  ReshapeLabels labels(x.shape, shape);
  return {.name = "reshape",
          .rule = {.labels = labels.from + "->" + labels.to,
                   .whole = labels.whole,
                   .linear = {0},
                   .extents = std::move(labels.extents)},
          .operands = {x},
          .results = {{"reshape", x.dtype, std::move(shape), {}}}};
}

DistributedTensor reshape(const DistributedTensor& x, std::vector<std::int64_t> shape, const CallOptions& options) {
  const Operation op = reshape_operation(x.spec(), std::move(shape));
  ArrivedOperation arrived = arrive(op, std::array{&x}, options);
  const ConstBuffer from = arrived.operands.front()->local();
  if (from.bytes > 0) std::memcpy(arrived.results.front().local().data, from.data, from.bytes);
  return std::move(arrived.results.front());
}

}  // namespace sinew::parallel
