// What the step graph, and the check of the order of calls before it, cost the engine: time per parameter of a step
// whose exchanges end at once, one core.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/step_graph/protocol.hpp>
#include <sinew/parallel/step_graph/runner.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"

namespace {

namespace sp = sinew::parallel;

constexpr std::int32_t kParametersPerUnit = 12;

struct NoExchanges final : sp::StepActions {
  sinew::Work start(const sp::Node&) override { return {}; }
  void free(const sp::Node&) override {}
};

/// The calls of a step in their order.
sp::StepProtocol protocol_of(const std::vector<sp::DataParameter>& list, bool gathers_units) {
  sp::StepProtocol::Shape shape{.gathers_units = gathers_units};
  for (const sp::DataParameter& p : list) {
    if (shape.units.empty() || shape.units.back().name != p.unit) shape.units.push_back({p.unit});
    shape.gradients.push_back({p.path, static_cast<std::int32_t>(shape.units.size()) - 1});
  }
  return {std::move(shape), {}};
}

void make_calls(sp::StepProtocol& protocol, const std::vector<sp::DataParameter>& list) {
  const auto units = static_cast<std::int32_t>(list.size() - 1) / kParametersPerUnit + 1;
  for (std::int32_t u = 0; u < units; ++u) protocol.before_forward(u), protocol.after_forward(u);
  for (std::int32_t u = units; u-- > 0;) {
    protocol.before_backward(u);
    const auto last = std::min(static_cast<std::int32_t>(list.size()), (u + 1) * kParametersPerUnit);
    for (std::int32_t p = u * kParametersPerUnit; p < last; ++p) protocol.gradient_ready(p);
    protocol.after_backward(u);
  }
  static_cast<void>(protocol.finish_backward());
  protocol.updated();
}

double median_of(std::vector<double>& seconds) {
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  sinew::bench::CommandLine command("Time of the step graph per parameter and step");
  int parameters = 1000, steps = 101;
  command.option("--parameters", parameters, "of the graph", sinew::bench::kPositive);
  command.option("--steps", steps, "steps; the median is printed", sinew::bench::kPositive);
  command.parse(argc, argv);

  std::vector<sp::DataParameter> list;
  for (int i = 0; i < parameters; ++i) {
    const std::string unit = std::to_string(i / kParametersPerUnit);
    list.push_back({.path = unit + "." + std::to_string(i), .elements = 1 << 16, .unit = unit});
  }
  for (const char* row : {"ddp", "zero3"}) {
    NoExchanges actions;
    const sp::StepPlan plan = sp::plan_step(list, sp::data_row(row, {"dp"}));
    sp::StepRunner runner(plan.graph, actions);
    sp::StepProtocol protocol = protocol_of(list, std::string_view(row) == "zero3");
    std::vector<double> seconds, seconds_of_protocol;
    for (int s = 0; s < steps; ++s) {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < plan.graph.nodes.size(); ++i) {
        if (plan.graph.nodes[i].kind == sp::NodeKind::Gate) runner.gate(static_cast<std::int32_t>(i));
        if (plan.graph.nodes[i].kind == sp::NodeKind::Signal) runner.signal(static_cast<std::int32_t>(i));
      }
      runner.finish();
      const auto end_of_runner = std::chrono::steady_clock::now();
      make_calls(protocol, list);
      const auto end = std::chrono::steady_clock::now();
      seconds.push_back(std::chrono::duration<double>(end_of_runner - start).count());
      seconds_of_protocol.push_back(std::chrono::duration<double>(end - end_of_runner).count());
    }
    const double us = 1e6 / parameters;
    std::puts(sinew::json_object({{"row", row},
                                  {"us_per_parameter", median_of(seconds) * us, 4},
                                  {"us_per_parameter_of_protocol", median_of(seconds_of_protocol) * us, 4}})
                  .c_str());
  }
  return 0;
}
