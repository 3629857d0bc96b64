// A GPT that trains on several ranks under one configuration.
// Try: gpt --steps 50, then sinew-run -n 4 gpt --zero 3 --steps 50
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <variant>

#include <fmt/format.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/deadline.hpp>
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

/// What all ranks have to say alike rank 0 says for them. The others end no sooner: a launcher ends all ranks when the
/// first one has failed.
void say_for_all(sinew::World& world, const std::string& text, std::FILE* to) {
  constexpr std::chrono::seconds kPatience{5};
  if (world.rank() == 0) std::fputs(text.c_str(), to);
  std::fflush(to);
  try {
    world.communicator().barrier({.deadline = sinew::Deadline::after(kPatience)}).get();
  } catch (const sinew::Error&) {  // of a rank that has other things to say: its own ending tells
  }
}

int run(sinew::World& world, const Asked& asked) {
  if (const auto* none = std::get_if<gpt::NoRun>(&asked)) {
    say_for_all(world, none->text, none->code == 0 ? stdout : stderr);
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
    const std::string text = fmt::format("gpt: {}\n", e.what());
    if (e.code() == sinew::Code::InvalidArgument && world) {
      say_for_all(*world, text, stderr);  // what they were asked for is wrong on all of them alike
    } else {
      std::fputs(text.c_str(), stderr);
    }
    return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpt: {}\n", e.what());
    return 1;
  }
}
