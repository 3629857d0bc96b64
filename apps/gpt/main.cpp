// A GPT that trains on several ranks under one configuration.
// Try: gpt --steps 50, then sinew-run -n 4 gpt --zero 3 --steps 50
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <variant>

#include <fmt/format.h>

#include <sinew/collectives/launch/rendezvous.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/common/job_messages.hpp>

#include "train/options.hpp"
#include "train/training.hpp"

namespace {

using Asked = std::variant<gpt::Options, gpt::NoRun>;

Asked read(int argc, char** argv) {
  try {
    return gpt::read_options(argc, argv);
  } catch (const gpt::NoRun& e) {
    return e;
  }
}

int run(sinew::World& world, const Asked& asked) {
  const auto* none = std::get_if<gpt::NoRun>(&asked);
  if (none != nullptr && none->code == 0) {
    sinew::tools::say_once(world.communicator(), none->text, stdout);
    return 0;
  }
  std::string complaint = none != nullptr ? none->text : "";
  std::optional<gpt::Text> text;
  if (const auto* options = std::get_if<gpt::Options>(&asked)) {
    try {
      gpt::require_shape(options->shape);
      text = gpt::text_of(*options);
    } catch (const sinew::Error& e) {
      complaint = fmt::format("gpt: {}\n", e.what());
    }
  }
  if (sinew::tools::any_complains(world.communicator(), complaint)) return 2;
  return gpt::run(world, std::get<gpt::Options>(asked), *text);
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<sinew::World> world;
  try {
    const Asked asked = read(argc, argv);
    if (const auto* training = std::get_if<gpt::Options>(&asked);
        training != nullptr && !training->plan && sinew::Rendezvous::limits()) {
      gpt::require_shape(training->shape);
      return gpt::train_growing(*training, gpt::text_of(*training));
    }
    sinew::WorldOptions options{};
    options.threads = sinew::Threads::Multiple;  // exchanges go on while the model computes
    world.emplace(sinew::World::from_environment(options));
    return run(*world, asked);
  } catch (const sinew::Error& e) {
    const std::string text = fmt::format("gpt: {}\n", e.what());
    if (e.code() == sinew::Code::InvalidArgument && world) {
      sinew::tools::say_error(world->communicator(), text);
    } else {
      std::fputs(text.c_str(), stderr);
    }
    return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpt: {}\n", e.what());
    return 1;
  }
}
