#include "job_log.hpp"

#include <algorithm>
#include <iterator>
#include <regex>

namespace changes {
namespace {

// "[0] 3 of 4 ranks go on with step 12, 12 samples a step, after 0.214 s (.., state 0.010 s)"
const std::regex kGoOn(R"((\d+)(?: of \d+)? ranks go on with step (\d+),.*state ([0-9.]+) s)");
// "sinew-run: process 3 was killed by SIGKILL", "sinew-run: host b: ...; ranks 2, 3 lost"
const std::regex kReported(R"(^sinew-run: process \d+ was killed by SIGKILL)");
const std::regex kLost(R"(^sinew-run: host .*; ranks? ([0-9, ]+)(?: and (\d+) more)? lost)");
// "[0] gpt: all_reduce(..) ...: rank 3 (host vm, process 19857) ended: killed by signal 9 (Killed)"
const std::regex kError(R"(^\[\d+\] gpt: )");
const std::regex kRank(R"(rank \d+)");
const std::regex kDead(R"(process (\d+)\) (?:ended|has ended|died))");

}  // namespace

std::vector<Resumption> JobLog::read() {
  std::vector<Resumption> resumptions;
  std::ifstream in(file_);
  in.seekg(at_);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    at_ = in.tellg();
    read_line(line, resumptions);
  }
  return resumptions;
}

void JobLog::read_line(const std::string& line, std::vector<Resumption>& resumptions) {
  std::smatch found;
  if (std::regex_search(line, kReported)) {
    ++reported_;
  } else if (std::regex_search(line, found, kLost)) {
    const std::string named = found[1];
    reported_ += 1 + static_cast<int>(std::ranges::count(named, ',')) + (found[2].matched ? std::stoi(found[2]) : 0);
  } else if (std::regex_search(line, kError)) {
    if (!std::regex_search(line, kRank)) nameless_.push_back(line);
    for (std::sregex_iterator dead(line.begin(), line.end(), kDead), end; dead != end; ++dead)
      named_.insert(std::stoi((*dead)[1]));
  } else if (std::regex_search(line, found, kGoOn)) {
    const int ranks = std::stoi(found[1]);
    using enum Resumption::Effect;
    const Resumption::Effect effect = ranks < ranks_ ? Fewer : ranks > ranks_ ? Joined : Replaced;
    resumptions.push_back({effect, ranks, std::stoll(found[2]), std::stod(found[3])});
    ranks_ = ranks;
  }
}

std::string JobLog::end() const {
  constexpr std::size_t kMost = 6000;
  std::ifstream said(file_);
  std::string text((std::istreambuf_iterator<char>(said)), {});
  return text.substr(text.size() > kMost ? text.size() - kMost : 0);
}

}  // namespace changes
