#include "job_table.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace sinew::tools {
namespace {

constexpr std::size_t kGap = 2;            // between columns
constexpr std::size_t kNarrowestText = 8;  // of a column that is cut
constexpr std::string_view kCut = "..";

/// A column of the table.
struct JobColumn {
  std::string name;
  bool is_right = false;
  bool may_be_cut = false;
  int leaves = 0;  ///< the columns with the highest number leave a narrow table first; 0: the column never leaves
  std::vector<std::string> cells{};
  std::size_t width = 0;
};

/// The number of characters of UTF-8 text.
std::size_t characters_in(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

/// The first `width` characters of a text, the last two of which are ".." if there are more.
std::string cut_to(std::string_view text, std::size_t width) {
  if (characters_in(text) <= width) return std::string(text);
  const std::size_t kept = width > kCut.size() ? width - kCut.size() : 0;
  std::size_t at = 0;
  for (std::size_t seen = 0; at < text.size(); ++at) {
    if ((text[at] & 0xc0) != 0x80 && seen++ == kept) break;
  }
  return std::string(text.substr(0, at)) + std::string(kCut.substr(0, width - kept));
}

/// A number of at most four characters in a unit that suits.
std::string scaled_text(double value, double step, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  while (unit + 1 < units.size() && value >= 999.5) value /= step, ++unit;
  const bool is_exact = unit == 0 && value == static_cast<double>(static_cast<std::uint64_t>(value));
  return fmt::format("{:.{}f}{}", value, is_exact || value >= 99.95 ? 0 : 1, value == 0 ? "" : units[unit]);
}

std::string since_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  return seconds < 6000 ? fmt::format("{:.0f} min", seconds / 60) : fmt::format("{:.0f} h", seconds / 3600);
}

/// Says who waits for whom: "late: not called", "waits for 2".
std::string verdict_of(const WatchedRank& rank) {
  if (!rank.delays.empty()) return "late: " + rank.delays;
  if (!rank.waits_for) return "";
  return *rank.waits_for < 0 ? "waits" : fmt::format("waits for {}", *rank.waits_for);
}

bool is_remarkable(const WatchedRank& rank) noexcept {
  return !rank.delays.empty() || rank.waits_for || rank.state == RankState::Died || rank.state == RankState::Stopped;
}

std::vector<JobColumn> columns_of(std::span<const WatchedRank> ranks) {
  std::vector<JobColumn> columns{{.name = "rank", .is_right = true},
                                 {.name = "process", .is_right = true, .leaves = 6},
                                 {.name = "state"},
                                 {.name = "for", .is_right = true, .leaves = 1},
                                 {.name = "calls/s", .is_right = true},
                                 {.name = "bytes/s", .is_right = true, .leaves = 3},
                                 {.name = "late"},
                                 {.name = "communicator", .may_be_cut = true, .leaves = 5},
                                 {.name = "call", .may_be_cut = true, .leaves = 2}};
  for (const WatchedRank& r : ranks) {
    const bool is_known = r.state != RankState::Unknown;
    const std::array<std::string, 9> cells{std::to_string(r.rank),
                                           is_known ? std::to_string(r.process) : "",
                                           std::string(name_of(r.state)),
                                           is_known && !r.call.empty() ? since_text(r.for_s) : "",
                                           r.calls_per_s ? count_text(*r.calls_per_s) : "-",
                                           r.bytes_per_s ? bytes_text(*r.bytes_per_s) : "-",
                                           verdict_of(r),
                                           r.communicator,
                                           r.state == RankState::Idle && !r.call.empty() ? "after " + r.call : r.call};
    for (std::size_t c = 0; c < cells.size(); ++c) columns[c].cells.push_back(cells[c]);
  }
  std::erase_if(columns, [](const JobColumn& c) {
    return c.name == "late" && std::ranges::all_of(c.cells, [](const std::string& cell) { return cell.empty(); });
  });
  for (JobColumn& c : columns) {
    c.width = characters_in(c.name);
    for (const std::string& cell : c.cells) c.width = std::max(c.width, characters_in(cell));
  }
  return columns;
}

std::size_t width_of(std::span<const JobColumn> columns) noexcept {
  std::size_t width = columns.empty() ? 0 : kGap * (columns.size() - 1);
  for (const JobColumn& c : columns) width += c.width;
  return width;
}

/// Cuts the columns that may be cut, the last one first. Returns true if the table then fits.
bool cut_columns(std::vector<JobColumn>& columns, std::size_t width) {
  for (auto c = columns.rbegin(); c != columns.rend() && width_of(columns) > width; ++c) {
    if (!c->may_be_cut) continue;
    const std::size_t least = std::max(kNarrowestText, characters_in(c->name));
    const std::size_t over = width_of(columns) - width;
    if (c->width > least) c->width = std::max(least, c->width - std::min(over, c->width));
  }
  return width_of(columns) <= width;
}

std::vector<JobColumn> fitting_columns(std::span<const WatchedRank> ranks, std::size_t width) {
  std::vector<JobColumn> all = columns_of(ranks);
  while (width > 0) {
    std::vector<JobColumn> narrow = all;
    const auto first = std::ranges::max_element(all, {}, &JobColumn::leaves);
    if (cut_columns(narrow, width) || first->leaves == 0) return narrow;
    all.erase(first);
  }
  return all;
}

std::string line_of(std::span<const JobColumn> columns, std::size_t width, const auto& cell_of) {
  std::string line;
  for (const JobColumn& c : columns) {
    const std::string cell = cut_to(cell_of(c), c.width);
    const std::string pad(c.width - std::min(c.width, characters_in(cell)), ' ');
    if (!line.empty()) line.append(kGap, ' ');
    line += c.is_right ? pad + cell : cell + pad;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return width == 0 ? line : cut_to(line, width);
}

std::string coloured(const std::string& line, std::string_view code, bool has_colour) {
  return has_colour && !code.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, line) : line;
}

/// Red: others wait for the rank. Yellow: the rank waits.
std::string_view colour_of(const WatchedRank& rank) noexcept {
  if (!rank.delays.empty() || rank.state == RankState::Died) return "31";
  return is_remarkable(rank) ? "33" : "";
}

std::string title_of(const WatchedJob& job) {
  const auto in = [&](RankState state) { return std::ranges::count(job.ranks, state, &WatchedRank::state); };
  std::string title = fmt::format("{}: {} rank{}", job.name, job.ranks.size(), job.ranks.size() == 1 ? "" : "s");
  for (const RankState state :
       {RankState::InCall, RankState::Idle, RankState::Stopped, RankState::Left, RankState::Died, RankState::Unknown}) {
    if (in(state) > 0) title += fmt::format(", {} {}", in(state), name_of(state));
  }
  return job.is_over ? title + ": the job has ended" : title;
}

/// The ranks that a view of so many lines has room for.
std::vector<WatchedRank> shown(const WatchedJob& job, std::size_t room) {
  std::vector<WatchedRank> ranks = job.ranks;
  if (room == 0 || ranks.size() <= room) return ranks;
  std::ranges::stable_partition(ranks, is_remarkable);
  ranks.resize(room);
  std::ranges::sort(ranks, {}, &WatchedRank::rank);
  return ranks;
}

}  // namespace

std::string count_text(double count) {
  constexpr std::string_view kUnits[] = {"", "k", "M", "G", "T"};
  return scaled_text(count, 1000, kUnits);
}

std::string bytes_text(double bytes) {
  constexpr std::string_view kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  return scaled_text(bytes, 1024, kUnits);
}

std::string job_table(const WatchedJob& job, const TableView& view) {
  constexpr std::size_t kOtherLines = 3;  // the job, the heading, and how many are left out
  const std::size_t room = view.height == 0 ? 0 : std::max(view.height, kOtherLines + 1) - kOtherLines;
  const std::vector<WatchedRank> ranks = shown(job, room);
  const std::vector<JobColumn> columns = fitting_columns(ranks, view.width);
  const std::string title = title_of(job);
  std::string text = (view.width == 0 ? title : cut_to(title, view.width)) + "\n";
  text +=
      coloured(line_of(columns, view.width, [](const JobColumn& c) { return c.name; }), "1", view.has_colour) + "\n";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::string line = line_of(columns, view.width, [i](const JobColumn& c) { return c.cells[i]; });
    text += coloured(line, colour_of(ranks[i]), view.has_colour) + "\n";
  }
  if (ranks.size() < job.ranks.size()) text += fmt::format("{} more ranks\n", job.ranks.size() - ranks.size());
  return text;
}

}  // namespace sinew::tools
