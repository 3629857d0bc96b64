// What the step graph costs the engine: time per parameter of a step whose exchanges end at once, one core.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <sinew/parallel/data/step_plan.hpp>
#include <sinew/parallel/step/runner.hpp>

namespace {

namespace sp = sinew::parallel;

struct NoExchanges final : sp::StepActions {
  sinew::Work start(const sp::Node&) override { return {}; }
  void free(const sp::Node&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Time of the step graph per parameter and step");
  int parameters = 1000, steps = 101;
  app.add_option("--parameters", parameters)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--steps", steps)->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  std::vector<sp::DataParameter> list;
  for (int i = 0; i < parameters; ++i) {
    const std::string unit = std::to_string(i / 12);
    list.push_back({.path = unit + "." + std::to_string(i), .elements = 1 << 16, .unit = unit});
  }
  for (const char* row : {"ddp", "zero3"}) {
    NoExchanges actions;
    const sp::StepPlan plan = sp::plan_step(list, sp::data_row(row, {"dp"}));
    sp::StepRunner runner(plan.graph, actions);
    std::vector<double> seconds;
    for (int s = 0; s < steps; ++s) {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < plan.graph.nodes.size(); ++i) {
        if (plan.graph.nodes[i].kind == sp::NodeKind::Gate) runner.gate(static_cast<std::int32_t>(i));
        if (plan.graph.nodes[i].kind == sp::NodeKind::Signal) runner.signal(static_cast<std::int32_t>(i));
      }
      runner.finish();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::ranges::sort(seconds);
    std::printf("{\"row\": \"%s\", \"us_per_parameter\": %.4f}\n", row, seconds[seconds.size() / 2] * 1e6 / parameters);
  }
  return 0;
}
