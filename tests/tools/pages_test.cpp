// The pages that packages install beside a tool, compared with what --help prints: every option, and no other.
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>

namespace sinew::test {
namespace {

using Names = std::set<std::string>;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string output_of(const std::vector<std::string>& command) {
  const Outcome outcome = run_program(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

/// Adds the names in "-n,--ranks".
void add_names(Names& names, std::string list) {
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) names.insert(name);
}

struct Help {
  Names options;      ///< "-n", "--ranks"
  Names positionals;  ///< "BYTES"
  Names commands;
};

/// Reads the text of --help, line by line.
Help help_of(const std::vector<std::string>& command) {
  std::vector<std::string> asked = command;
  asked.emplace_back("--help");
  Help help;
  std::string section;
  std::smatch found;
  for (const std::string& line : lines_of(output_of(asked))) {
    if (std::regex_match(line, found, std::regex("([A-Za-z]+):"))) section = found[1];
    if (!std::regex_search(line, found, std::regex("^  ([^ ]+)"))) continue;
    if (section == "Options" && found[1].str().starts_with('-')) add_names(help.options, found[1]);
    if (section == "Positionals") help.positionals.insert(found[1]);
    if (section == "Subcommands") help.commands.insert(found[1]);
  }
  return help;
}

/// A tool, or a command of one.
struct Tool {
  std::string name;     ///< "sinew-info"
  std::string program;  ///< its file
  std::string command;  ///< "plan"; empty: the tool itself

  Help help() const { return help_of(command.empty() ? std::vector{program} : std::vector{program, command}); }
  std::string page(const std::string& kind) const { return output_of({program, "--page", kind}); }
  /// The options that completions offer: those of --help, and where the tool's own are taken behind its command, these.
  Names completed() const {
    Names names = help().options;
    if (!command.empty() && name == "sinew-info") names.merge(help_of({program}).options);
    return names;
  }
};

void PrintTo(const Tool& tool, std::ostream* out) { *out << tool.name << " " << tool.command; }

std::vector<Tool> tools() {
  std::vector<Tool> all = {
      {"sinew-run", SINEW_RUN, ""},      {"sinew-bench", SINEW_BENCH, ""}, {"sinew-sim", SINEW_SIM, ""},
      {"sinew-sim", SINEW_SIM, "train"}, {"sinew-info", SINEW_INFO, ""},   {"sinew-conformance", SINEW_CONFORMANCE, ""},
  };
  for (const char* command : {"topology", "transports", "plan", "config", "doctor", "hang", "trace"})
    all.push_back({"sinew-info", SINEW_INFO, command});
  return all;
}

std::string unescaped(const std::string& roff) {
  return std::regex_replace(std::regex_replace(roff, std::regex(R"(\\-)"), "-"), std::regex(R"(\\&)"), "");
}

/// The names that follow each .TP: options and positional arguments of the tool, or of one command.
Names names_in_man(const std::string& page, const Tool& tool) {
  Names names;
  std::string section, command;
  bool is_next = false;
  for (const std::string& raw : lines_of(page)) {
    const std::string line = unescaped(raw);
    if (line.starts_with(".SH ")) section = line.substr(4), command.clear();
    if (line.starts_with(".SS ")) command = line.substr(line.rfind(' ') + 1);
    if (is_next && (section == "OPTIONS" || section == "COMMANDS") && command == tool.command) {
      const std::regex bold(R"(\\fB(.*?)\\fR)");
      for (std::sregex_iterator it(line.begin(), line.end(), bold); it != std::sregex_iterator(); ++it)
        names.insert((*it)[1]);
    }
    is_next = line == ".TP";
  }
  return names;
}

class Pages : public testing::TestWithParam<Tool> {};
INSTANTIATE_TEST_SUITE_P(Tools, Pages, testing::ValuesIn(tools()));

TEST_P(Pages, ManPageHasTheOptionsOfHelp_AndNoOthers) {
  const Help help = GetParam().help();
  Names expected = help.options;
  expected.insert(help.positionals.begin(), help.positionals.end());
  ASSERT_THAT(expected, testing::Contains("--help"));
  EXPECT_EQ(names_in_man(GetParam().page("man"), GetParam()), expected);
}

/// The words that bash offers after `words`, of which the last one is `current`.
Names completed_by_bash(const Tool& tool, const std::string& words, const std::string& current) {
  const std::string function = "_" + std::regex_replace(tool.name, std::regex("-"), "_");
  const std::string script = tool.page("bash") + "\nCOMP_WORDS=(" + words + " '" + current +
                             "')\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n" + function +
                             "\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  Names names;
  for (const std::string& line : lines_of(output_of({"bash", "-euc", script})))
    if (!line.empty()) names.insert(line);
  return names;
}

TEST_P(Pages, BashCompletesTheOptionsOfHelp_AndNoOthers) {
  const Tool& tool = GetParam();
  const std::string words = tool.command.empty() ? tool.name : tool.name + " " + tool.command;
  EXPECT_EQ(completed_by_bash(tool, words, "-"), tool.completed());
  if (tool.name == "sinew-run") return;  // any program may follow
  Names expected = tool.completed();
  if (tool.command.empty()) expected.merge(tool.help().commands);
  if (tool.command.empty() && tool.name == "sinew-sim") expected.insert("train");
  EXPECT_EQ(completed_by_bash(tool, words, ""), expected);
}

TEST(PagesValues, BashCompletesTheWordsThatAnOptionTakes) {
  const Tool run{"sinew-run", SINEW_RUN, ""}, sim{"sinew-sim", SINEW_SIM, "train"};
  EXPECT_EQ(completed_by_bash(run, "sinew-run -n 2 --on-failure", ""), (Names{"end", "continue"}));
  EXPECT_EQ(completed_by_bash(run, "sinew-run --on-failure", "c"), Names{"continue"});
  EXPECT_EQ(completed_by_bash(run, "sinew-run --on-failure =", "e"), Names{"end"});
  EXPECT_EQ(completed_by_bash(sim, "sinew-sim train --gradients", ""), (Names{"f32", "bf16"}));
  EXPECT_EQ(completed_by_bash(sim, "sinew-sim train --model", ""), Names{}) << "bash goes on to names of files";
  EXPECT_THAT(completed_by_bash(run, "sinew-run -n 2", "tru"), testing::Contains("true")) << "a program";
}

TEST_P(Pages, FishCompletesTheOptionsOfHelp_AndNoOthers) {
  if (run_program({"fish", "--version"}).exit_code != 0) GTEST_SKIP() << "fish is not installed";
  const Tool& tool = GetParam();
  Names names;
  for (const char* dashes : {"-", "--"}) {
    const std::string line = tool.name + " " + tool.command + " " + dashes;
    const std::string script = tool.page("fish") + "\ncomplete -C '" + line + "'\n";
    const std::string folder = tool.program.substr(0, tool.program.rfind('/'));
    const Outcome outcome =
        run_program({"fish", "--no-config", "-c", script}, {"HOME=/nonexistent", "PATH=/usr/bin:" + folder});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const std::string& candidate : lines_of(outcome.out))
      if (candidate.starts_with('-')) names.insert(candidate.substr(0, candidate.find('\t')));
  }
  EXPECT_EQ(names, tool.completed());
}

TEST_P(Pages, ZshCompletesTheOptionsOfHelp_AndNoOthers) {
  const Tool& tool = GetParam();
  const std::string page = tool.page("zsh");
  Names names;
  std::string place;
  std::smatch found;
  for (const std::string& line : lines_of(page)) {
    if (std::regex_match(line, found, std::regex(R"( +([a-z*]+)\))"))) place = found[1];
    if (place == "*") continue;  // the tool's own options once more, after its positional arguments
    if (place == tool.command && std::regex_search(line, found, std::regex(R"(^ +'\*(-[^\[]+)\[)")))
      names.insert(found[1]);
  }
  EXPECT_EQ(names, tool.completed());
  if (run_program({"zsh", "--version"}).exit_code != 0) GTEST_SKIP() << "zsh, which reads the script, is not installed";
  const Outcome outcome = run_program({"zsh", "-nc", page});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST(PagesControl, FindsAMissingAndAnAddedOption) {
  const Tool run{"sinew-run", SINEW_RUN, ""};
  const std::string page = run.page("man");
  const std::string line = "\\fB\\-\\-hosts\\fR TEXT";
  ASSERT_NE(page.find(line), std::string::npos);
  EXPECT_NE(names_in_man(std::regex_replace(page, std::regex(R"(\.TP\n\\fB\\-\\-hosts)"), "hosts"), run),
            run.help().options);
  EXPECT_NE(names_in_man(page + ".SH OPTIONS\n.TP\n\\fB\\-\\-planted\\fR\n", run), run.help().options);
}

TEST(PagesControl, RefusesAnotherKindOfPage) {
  const Outcome outcome = run_program({SINEW_RUN, "--page", "pdf"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "sinew-run: --page pdf: expected man, bash, zsh or fish\n");
}

TEST(Version, NamesCommitTransportsAndOptionalParts_OfEveryTool) {
  for (const char* program : {SINEW_RUN, SINEW_BENCH, SINEW_INFO, SINEW_SIM, SINEW_CONFORMANCE}) {
    const std::string text = output_of({program, "--version"});
    EXPECT_TRUE(
        std::regex_match(text, std::regex("sinew [0-9.]+\ncommit: [^\n]+\ntransports: inproc, shm, tcp[^\n]*\n"
                                          "offloads: shm[^\n]*\noptional parts: TLS yes, PMIX (yes|no|off)[^\n]*\n")))
        << text;
  }
}

TEST(Version, NamesTheCommitOfTheRepository) {
  const Outcome git = run_program({"git", "--git-dir=" SINEW_SOURCE "/.git", "rev-parse", "--short=12", "HEAD"});
  if (git.exit_code != 0) GTEST_SKIP() << "the sources have no repository here: " << git.err;
  EXPECT_THAT(output_of({SINEW_INFO, "--version"}), testing::HasSubstr("commit: " + git.out.substr(0, 12)));
}

}  // namespace
}  // namespace sinew::test
