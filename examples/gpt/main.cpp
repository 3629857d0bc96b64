// A GPT that trains on several ranks under one configuration.
// Try: gpt --steps 50, then sinew-run -n 4 gpt --zero 3 --steps 50
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <variant>

#include <fmt/format.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "train/options.hpp"
#include "train/run.hpp"

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
  if (const auto* none = std::get_if<gpt::NoRun>(&asked)) {
    if (world.rank() == 0) std::fputs(none->text.c_str(), none->code == 0 ? stdout : stderr);
    return none->code;
  }
  return gpt::run(world, std::get<gpt::Options>(asked));
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<sinew::World> world;
  try {
    const Asked asked = read(argc, argv);
    sinew::WorldOptions options{};
    options.drive = sinew::Drive::Thread;  // exchanges go on while the model computes
    world.emplace(sinew::World::from_environment(options));
    return run(*world, asked);
  } catch (const sinew::Error& e) {
    // What all ranks were asked for is wrong on all of them alike: once is enough.
    const bool of_all = e.code() == sinew::Code::InvalidArgument && world && world->rank() != 0;
    if (!of_all) fmt::print(stderr, "gpt: {}\n", e.what());
    return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpt: {}\n", e.what());
    return 1;
  }
}
