#pragma once

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <support/run_program.hpp>
#include <support/scratch_folder.hpp>

// Shared by tests of the whole program.
namespace gpt::test {

using sinew::test::Outcome;
using sinew::test::run_program;
using Strings = std::vector<std::string>;

/// A model that takes no time.
inline const Strings kTiny{"--layers",  "1", "--heads", "2",  "--width",  "16",
                           "--context", "8", "--batch", "12", "--warmup", "2"};

/// The program on so many ranks, of such a model.
inline Outcome gpt(int ranks, const Strings& options) {
  Strings command;
  if (ranks > 1) command = {SINEW_RUN, "-n", std::to_string(ranks)};
  command.emplace_back(GPT);
  command.insert(command.end(), kTiny.begin(), kTiny.end());
  command.insert(command.end(), options.begin(), options.end());
  return run_program(command);
}

inline std::string content(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline long lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

/// The loss in the last line.
inline double last_loss(const std::string& metrics) {
  const std::string text = content(metrics), name = "\"loss\":";
  const std::size_t at = text.rfind(name);
  return at == std::string::npos ? 0 : std::stod(text.substr(at + name.size()));
}

/// The memory that a run held, in percent of what was predicted, as it printed it. 0: it printed nothing.
inline double percent_of_predicted(const std::string& out) {
  const std::size_t end = out.find(" % of what was predicted");
  if (end == std::string::npos) return 0;
  const std::size_t begin = out.rfind(' ', end - 1);
  return std::stod(out.substr(begin + 1, end - begin - 1));
}

/// The difference from 100 percent of the predicted memory that is allowed.
inline constexpr double kPercentOff = 5;

/// With a folder of its own.
class Program : public ::testing::Test {
 protected:
  std::string in(const std::string& name) const { return folder_ / name; }

 private:
  sinew::test::ScratchFolder folder_;
};

}  // namespace gpt::test
