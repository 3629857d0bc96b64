#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/call/determinism.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/data_rules.hpp>

namespace sinew::parallel {
namespace {

void complain_of_places(std::vector<std::string>& wrong, const DataRow& row, const DataParallelOptions& options) {
  const bool on_device = options.device.runtime != nullptr;
  if (on_device && options.device.stream.device < 0)
    wrong.emplace_back("device: a stream of no device; expected the one that the engine computes on");
  if (on_device && options.wire.error_feedback)
    wrong.emplace_back("device: error feedback; expected gradients that travel without it, or memory of the host");
  if (on_device && options.wire.int4)
    wrong.emplace_back("device: int4 gradients; expected plain gradients, or memory of the host");
  if (on_device && options.weights != WeightWire::Plain)
    wrong.push_back(
        fmt::format("device: {} weights; expected plain weights, or memory of the host", name_of(options.weights)));
  if (options.step.offload == Offload::Nothing) {
    if (options.shards)
      wrong.emplace_back("memory for shards without offload: expected Offload::ParametersAndOptimizer");
    return;
  }
  if (!on_device && !options.shards)
    wrong.emplace_back(
        "offload: parameters are in host memory already; expected device memory, or DataParallelOptions::shards");
  if (sharded_axis(row).parameter == Held::Whole)
    wrong.push_back(fmt::format("offload: row '{}' keeps whole parameters; expected one that shards them", row.name));
  if (!on_device && options.wire.int4)
    wrong.emplace_back("offload: int4 gradients; expected plain gradients, or no offload");
  if (!on_device && options.weights != WeightWire::Plain)
    wrong.push_back(
        fmt::format("offload: {} weights; expected plain weights, or no offload", name_of(options.weights)));
}

/// Adds the options that cannot be combined with an order that reduces a unit more than once in a step.
void complain_of_order(std::vector<std::string>& wrong, const DataParallelOptions& options) {
  if (!reduces_again(options.step.order)) return;
  if (options.wire.error_feedback)
    wrong.emplace_back("several Reduces of a unit in a step with error feedback, expected one Reduce");
  if (options.step.offload != Offload::Nothing)
    wrong.emplace_back("several Reduces of a unit in a step with offload, expected one Reduce");
  if (options.determinism == Determinism::LayoutInvariant)
    wrong.emplace_back("several Reduces of a unit in a step of layout-invariant sums, expected one Reduce");
}

}  // namespace

void require_sound(const std::vector<DataParameter>& parameters, const DataRow& row, const DataParallelOptions& options,
                   std::optional<std::span<const ConstBuffer>> whole_values) {
  std::vector<std::string> wrong = violations_of(options.wire, options.determinism, row, parameters);
  for (std::string& more : violations_of(options.weights, options.determinism, row)) wrong.push_back(std::move(more));
  if (options.wire.int4 && reduces_again(options.step.order))
    wrong.emplace_back(
        "int4 gradients beside a schedule that sums the gradients of a unit more than once in a step; "
        "expected plain gradients, or a larger budget (DataOptions::gathered_bytes)");
  if (!options.step.scatter_axes.empty() && !options.wire.int4)
    wrong.push_back(fmt::format("scatter_axes '{}' with gradients that are not int4; expected GradientWire::int4",
                                options.step.scatter_axes));
  if (options.gradients != ReduceOp::Average && options.gradients != ReduceOp::Sum)
    wrong.push_back(fmt::format("gradients combine by {}, expected avg or sum", name_of(options.gradients)));
  complain_of_places(wrong, row, options);
  complain_of_order(wrong, options);
  const std::span<const ConstBuffer> values = whole_values.value_or(std::span<const ConstBuffer>());
  if (whole_values && parameters.size() != values.size())
    wrong.push_back(fmt::format("{} values for {} parameters", values.size(), parameters.size()));
  if (options.determinism == Determinism::LayoutInvariant && options.gradients == ReduceOp::Average)
    wrong.emplace_back("layout-invariant gradients that are averaged: expected their sum");
  for (std::size_t i = 0; i < std::min(parameters.size(), values.size()); ++i) {
    const std::size_t expected = static_cast<std::size_t>(parameters[i].elements) * size_of(parameters[i].dtype);
    if (values[i].place.kind == MemoryKind::Device)
      wrong.push_back(fmt::format("'{}' has a value in device memory, expected host memory", parameters[i].path));
    if (values[i].bytes != expected)
      wrong.push_back(fmt::format("'{}' has a value of {} bytes, expected {}: {} elements of {}", parameters[i].path,
                                  values[i].bytes, expected, parameters[i].elements, name_of(parameters[i].dtype)));
  }
  if (!wrong.empty()) throw Error(Code::InvalidArgument, fmt::format("data parallelism: {}", fmt::join(wrong, "; ")));
}

void require_groups(Mesh& mesh, const std::vector<std::string>& axes, const StepGraph& graph) {
  static_cast<void>(mesh.shape().in_order(fmt::format("{}", fmt::join(axes, "-"))));
  for (const Node& node : graph.nodes) {
    if (is_exchange(node.kind)) static_cast<void>(mesh.along(node.axes));
  }
}

void require_spread(Mesh& mesh, const std::vector<DataParameter>& parameters) {
  for (const DataParameter& p : parameters) {
    if (p.spread.empty()) continue;
    try {
      static_cast<void>(mesh.along(p.spread));
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("data parallelism: '{}' is spread along '{}': {}", p.path, p.spread, e.what()));
    }
  }
}

std::string text_of(const DataRow& row, const DataParallelOptions& options) {
  std::string text = row.name.empty() ? "a row" : row.name;
  for (const DataAxis& a : row.axes)
    text += fmt::format(" {}:{}{}{}", a.axis, static_cast<int>(a.parameter), static_cast<int>(a.gradient),
                        static_cast<int>(a.optimizer));
  std::string buckets = std::array{"none", "layers", "blocks", "bytes"}[options.step.buckets.index()];
  if (const auto* by_bytes = std::get_if<ByteBuckets>(&options.step.buckets))
    buckets = fmt::format("{}, {}, {} B", by_bytes->bytes, by_bytes->first_bytes, by_bytes->last_bytes);
  const char* const offloads = options.step.offload == Offload::Nothing ? "nothing" : options.shards ? "shards" : "all";
  return fmt::format(
      "{}, {}, {}, codec {}{}{} along '{}', weights {}, buckets {}, room {}, reshards after {} {}, outer unit '{}', "
      "unused {}, rebuilds {}, offloads {}, order [{}], [{}]",
      text, name_of(options.gradients), name_of(options.determinism), name_of(options.wire.codec),
      options.wire.error_feedback ? " with feedback" : "", options.wire.int4 ? ", int4" : "", options.step.scatter_axes,
      name_of(options.weights), buckets, options.step.gathered_bytes,
      options.step.reshard == Reshard::AfterForward ? "forward" : "backward", options.step.reshard_axes,
      options.step.outer_unit, options.unused_are_zero ? "zero" : "refused",
      options.rebuild_buckets ? "buckets" : "nothing", offloads, to_string(options.step.order.training),
      to_string(options.step.order.evaluation));
}

void require_number(std::string_view what, std::int32_t found, std::size_t count) {
  if (found >= 0 && static_cast<std::size_t>(found) < count) return;
  throw Error(Code::InvalidArgument,
              fmt::format("{} {}: expected one of the {} that there are, from 0 on", what, found, count));
}

void require_type(const DataParameter& parameter, DType asked, bool is_gradient) {
  const DType found = is_gradient ? parameter.gradient_dtype() : parameter.dtype;
  if (asked == found) return;
  throw Error(Code::InvalidArgument,
              fmt::format("{} '{}' is of {}, asked for as {}", is_gradient ? "the gradient of parameter" : "parameter",
                          parameter.path, name_of(found), name_of(asked)));
}

}  // namespace sinew::parallel
