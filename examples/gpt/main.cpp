// A GPT that trains on several ranks under one configuration.
// Try: gpt --steps 50, then sinew-run -n 4 gpt --zero 3 --steps 50
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <variant>
#include <vector>

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

/// What each rank has to complain of; empty: nothing.
std::vector<std::string> complaints_of_all(sinew::World& world, const std::string& mine,
                                           const sinew::CallOptions& options = {}) {
  constexpr std::size_t kMost = 400;
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::uint8_t> own(kMost), all(kMost * ranks);
  std::copy_n(mine.begin(), std::min(mine.size(), kMost - 1), own.begin());
  world.communicator().all_gather(own, all, options).get();
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r) texts.emplace_back(reinterpret_cast<const char*>(all.data() + r * kMost));
  return texts;
}

/// What only some ranks complain of is said with their numbers.
std::string joined(const std::vector<std::string>& complaints, const std::string& mine) {
  const bool are_equal = std::ranges::all_of(complaints, [&](const std::string& c) { return c == complaints.front(); });
  if (are_equal) return mine;
  std::string all;
  for (std::size_t r = 0; r < complaints.size(); ++r) {
    if (!complaints[r].empty()) all += fmt::format("rank {}: {}", r, complaints[r]);
  }
  return all;
}

/// An error that may be everybody's, which is said once, or this rank's alone.
void say_error(sinew::World& world, const std::string& text) {
  constexpr std::chrono::seconds kPatience{5};
  try {
    const auto all = complaints_of_all(world, text, {.deadline = sinew::Deadline::after(kPatience)});
    say_for_all(world, joined(all, text), stderr);
  } catch (const sinew::Error&) {  // the others are about something else
    std::fputs(text.c_str(), stderr);
  }
}

int run(sinew::World& world, const Asked& asked) {
  const auto* none = std::get_if<gpt::NoRun>(&asked);
  if (none != nullptr && none->code == 0) {
    say_for_all(world, none->text, stdout);
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
  const std::vector<std::string> complaints = complaints_of_all(world, complaint);
  if (std::ranges::any_of(complaints, [](const std::string& c) { return !c.empty(); })) {
    say_for_all(world, joined(complaints, complaint), stderr);
    return 2;
  }
  return gpt::run(world, std::get<gpt::Options>(asked), *text);
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<sinew::World> world;
  try {
    const Asked asked = read(argc, argv);
    sinew::WorldOptions options{};
    options.threads = sinew::Threads::Multiple;  // exchanges go on while the model computes
    world.emplace(sinew::World::from_environment(options));
    return run(*world, asked);
  } catch (const sinew::Error& e) {
    const std::string text = fmt::format("gpt: {}\n", e.what());
    if (e.code() == sinew::Code::InvalidArgument && world) {
      say_error(*world, text);
    } else {
      std::fputs(text.c_str(), stderr);
    }
    return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpt: {}\n", e.what());
    return 1;
  }
}
