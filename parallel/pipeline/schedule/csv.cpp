#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/schedule/gap.hpp>
#include <sinew/parallel/pipeline/schedule/inventory.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>

namespace sinew::parallel {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// Shortens any text to what fits a line.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string some(text.substr(0, kMost));
  std::ranges::replace_if(
      some, [](unsigned char c) { return std::isprint(c) == 0; }, '?');
  return text.size() > kMost ? some + "..." : some;
}

/// Takes what stands before `mark`, and the mark, from the front of a text.
std::string_view take_until(std::string_view& text, char mark) {
  const std::size_t end = std::min(text.find(mark), text.size());
  const std::string_view front = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return front;
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : name_(name) {
    schedule_.name = name;
    while (text.find_last_of("\r\n") + 1 == text.size() && !text.empty()) text.remove_suffix(1);
    if (text.empty()) refuse("no line: expected one per rank");
    while (!text.empty()) read_line(take_until(text, '\n'));
  }

  PipelineSchedule run() && {
    place_stages();
    const Inventory inventory(schedule_);
    if (inventory.fault()) refuse(*inventory.fault());
    if (const auto gap = find_gap(inventory, has_messages(schedule_))) refuse(*gap);
    return std::move(schedule_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Code::InvalidArgument, fmt::format("schedule '{}': {}", name_, why));
  }
  [[noreturn]] void refuse_cell(std::size_t rank, std::size_t cell, const std::string& why) const {
    refuse(fmt::format("line {}, cell {}: {}", rank + 1, cell + 1, why));
  }
  [[noreturn]] void refuse(const ScheduleFault& fault) const {
    const auto rank = static_cast<std::size_t>(fault.rank);
    if (fault.rank < 0) refuse(fault.what);
    if (fault.index < 0) refuse(fmt::format("line {}: {}", rank + 1, fault.what));
    refuse_cell(rank, cells_[rank][static_cast<std::size_t>(fault.index)], fault.what);
  }

  void read_line(std::string_view line) {
    const std::size_t rank = schedule_.actions.size();
    schedule_.actions.emplace_back();
    cells_.emplace_back();
    if (trimmed(line).empty()) refuse(fmt::format("line {} is empty: expected the actions of rank {}", rank + 1, rank));
    for (std::size_t cell = 0; !line.empty(); ++cell) read_cell(trimmed(take_until(line, ',')), rank, cell);
  }

  void read_cell(std::string_view text, std::size_t rank, std::size_t cell) {
    constexpr std::string_view kTogether = ")OVERLAP_F_B";
    if (text.starts_with('(') && text.ends_with(kTogether)) {
      text = text.substr(1, text.size() - 1 - kTogether.size());
      while (!text.empty()) read_action(trimmed(take_until(text, ';')), rank, cell);
    } else if (!text.empty()) {
      read_action(text, rank, cell);
    }
  }

  void read_action(std::string_view text, std::size_t rank, std::size_t cell) {
    const auto action = parse_action(text);
    if (!action)
      refuse_cell(rank, cell,
                  fmt::format("'{}': expected a stage, one of {}, and a micro-batch, such as 2F0 or 2UNSHARD",
                              shown(text), kActionWords));
    schedule_.actions[rank].push_back(*action);
    cells_[rank].push_back(cell);
  }

  /// Finds how many stages and micro-batches there are, and which rank has which stage. Each stage and micro-batch has
  /// a forward pass, so that no number is as large as there are of these.
  void place_stages() {
    std::int64_t forward = 0;
    for (const std::vector<Action>& actions : schedule_.actions)
      forward += std::ranges::count(actions, ActionKind::Forward, &Action::kind);
    if (forward == 0) refuse("no forward pass: expected one per stage and micro-batch, such as 0F0");
    for (std::size_t r = 0; r < schedule_.actions.size(); ++r) {
      for (std::size_t i = 0; i < schedule_.actions[r].size(); ++i) {
        const Action& a = schedule_.actions[r][i];
        for (const auto& [what, number] : {std::pair("stage", a.stage), std::pair("micro-batch", a.micro_batch)}) {
          if (number >= forward)
            refuse_cell(r, cells_[r][i],
                        fmt::format("{}: {} {} is out of range: {} forward passes are of 0..{} at most", to_string(a),
                                    what, number, forward, forward - 1));
        }
        place(a, r, cells_[r][i]);
        schedule_.micro_batches = std::max(schedule_.micro_batches, a.micro_batch + 1);
      }
    }
    for (std::int32_t s = 0; s < schedule_.stages(); ++s) {
      if (rank_of(schedule_, s) < 0)
        refuse(fmt::format("no line has stage {}: expected 0..{}", s, schedule_.stages() - 1));
    }
  }

  void place(const Action& a, std::size_t rank, std::size_t cell) {
    const auto stage = static_cast<std::size_t>(a.stage);
    if (stage >= schedule_.rank_of.size()) schedule_.rank_of.resize(stage + 1, -1);
    std::int32_t& known = schedule_.rank_of[stage];
    if (known >= 0 && known != static_cast<std::int32_t>(rank))
      refuse_cell(rank, cell, fmt::format("{}: stage {} is on line {}", to_string(a), stage, known + 1));
    known = static_cast<std::int32_t>(rank);
  }

  std::string_view name_;
  PipelineSchedule schedule_;
  std::vector<std::vector<std::size_t>> cells_;  // of each action
};

}  // namespace

std::string to_csv(const PipelineSchedule& schedule) {
  std::string text;
  for (const std::vector<Action>& actions : schedule.actions) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i > 0) text += ',';
      text += to_string(actions[i]);
    }
    text += actions.empty() ? ",\n" : "\n";
  }
  return text;
}

PipelineSchedule from_csv(std::string_view text, std::string_view name) { return Reader(text, name).run(); }

}  // namespace sinew::parallel
