#include "line_merger.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace sinew::run {

void LineMerger::take(Source source, std::string_view bytes) {
  Kept& kept = sources_[source];
  const bool had_turn = turn_ == source;
  if (had_turn) bytes = put_rest_of_line(bytes);
  if (const std::size_t end = bytes.rfind('\n'); end != std::string_view::npos) {
    kept.lines += std::exchange(kept.partial, {});
    kept.lines += bytes.substr(0, end + 1);
    kept.partial = bytes.substr(end + 1);
  } else {
    kept.partial += bytes;
  }
  if (had_turn && !turn_) return pass_turn(source);
  if (!turn_) return put_what_is_due(source, kept);
  if (turn_ != source) {
    meanwhile_ += bytes.size();
    await_turn(source, kept);
  }
  const bool too_much = line_bytes_ > kLongestLine || (!holds_ && meanwhile_ > kMostKept);
  if (someone_waits_ && too_much) pass_turn(*turn_);
}

void LineMerger::await_turn(Source source, Kept& kept) {
  if (!kept.ended) hold(source, kept, true);
  if (!kept.held && !is_due(kept)) return;
  if (std::exchange(someone_waits_, true)) return;
  grown_ = 0;
  events_.wait(true);
}

/// Returns what comes after the line.
std::string_view LineMerger::put_rest_of_line(std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  const std::string_view rest = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
  put(rest);
  line_bytes_ += rest.size();
  grown_ += rest.size();
  if (end != std::string_view::npos) turn_.reset();
  return bytes.substr(rest.size());
}

void LineMerger::finish(Source source) {
  const auto found = sources_.find(source);
  if (found == sources_.end()) return;
  found->second.ended = true;
  if (turn_ == source) return pass_turn(source);
  if (!turn_) return put_what_is_due(source, found->second);
  await_turn(source, found->second);
}

void LineMerger::finish_all() {
  if (std::exchange(all_ended_, true)) return;
  for (auto& [source, kept] : sources_) kept.ended = true;
  pass_turn(turn_.value_or(Source{kOwnLines, Stream::Errors}));
}

void LineMerger::hold_no_more() {
  for (auto& [source, kept] : sources_) hold(source, kept, false);
  holds_ = false;
}

void LineMerger::review() {
  if (!turn_ || !someone_waits_) return;
  if (grown_ < kLeastGrowth) return pass_turn(*turn_);
  grown_ = 0;
  events_.wait(true);
}

/// There is something that would go out if it were this source's turn.
bool LineMerger::is_due(const Kept& kept) const noexcept {
  const bool is_tail = kept.ended && (prefixes_ || all_ended_);
  return !kept.lines.empty() || kept.partial.size() >= kLongestKept || (is_tail && !kept.partial.empty());
}

void LineMerger::pass_turn(Source last) {
  turn_.reset();
  meanwhile_ = 0;
  auto next = sources_.upper_bound(last);
  for (std::size_t left = sources_.size(); left > 0 && !turn_; --left, ++next) {
    if (next == sources_.end()) next = sources_.begin();
    put_what_is_due(next->first, next->second);
    hold(next->first, next->second, false);
  }
  const auto waits = [this](const auto& source) { return source.second.held || is_due(source.second); };
  const bool any = turn_ && std::ranges::any_of(sources_, waits);
  grown_ = 0;
  if (std::exchange(someone_waits_, any) || any) events_.wait(any);
}

void LineMerger::put_what_is_due(Source source, Kept& kept) {
  if (!is_due(kept)) return;
  const std::string lines = std::exchange(kept.lines, {});
  std::string out;
  for (std::string_view rest = lines; !rest.empty();) {
    const std::size_t end = rest.find('\n') + 1;
    begin_line(source, out);
    out += rest.substr(0, end);
    rest.remove_prefix(end);
    inside_line_ = false;
  }
  if (is_due(kept)) {  // a tail, or a long line
    begin_line(source, out);
    const std::string partial = std::exchange(kept.partial, {});
    out += partial;
    inside_line_ = true;
    if (!kept.ended) turn_ = source;
    line_bytes_ = partial.size();
  }
  put(out);
}

/// A line of another source may have been cut, or have ended with its rank.
void LineMerger::begin_line(Source source, std::string& out) {
  const bool is_own = source.first == kOwnLines;
  if (inside_line_ && (prefixes_ || is_own)) out += '\n';
  if (prefixes_ && !is_own) out += fmt::format("[{}] ", source.first);
}

void LineMerger::put(std::string_view bytes) {
  if (bytes.empty()) return;
  inside_line_ = bytes.back() != '\n';
  events_.put(bytes);
}

void LineMerger::hold(Source source, Kept& kept, bool on) {
  if (!holds_ || source.first == kOwnLines || std::exchange(kept.held, on) == on) return;
  events_.hold(source, on);
}

}  // namespace sinew::run
