#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <sinew/collectives/control/control_service.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/system/process_state.hpp>

// What a control service says to other hosts, and hears from them.
namespace sinew {
namespace {

constexpr auto kFresh = std::chrono::seconds(2);
constexpr std::size_t kMostAnswers = 4096;      // not a page
constexpr std::size_t kReportsPerMessage = 32;  // fit into a datagram

Bytes with_type(LinkFrame type, std::span<const std::byte> body) {
  Bytes message(1 + body.size());
  message[0] = static_cast<std::byte>(type);
  std::copy(body.begin(), body.end(), message.begin() + 1);
  return message;
}

}  // namespace

/// The lowest rank of the host that lives and is not stopped.
bool ControlService::speaks() const {
  const std::string& host = peers_[static_cast<std::size_t>(rank_)].host_id;
  for (const ControlPeer& p : peers_) {
    if (p.rank >= rank_ || p.host_id != host || !living(p.rank)) continue;
    if (p.page && p.page->left.load(std::memory_order_seq_cst) != 0) continue;
    if (!is_stopped(state_of_process(p.process))) return false;
  }
  return true;
}

void ControlService::greet(HostLink& link) {
  std::vector<Notice> known;
  {
    const std::scoped_lock lock(mutex_);
    known = failures_.all();
  }
  for (const Notice& n : known) link.send(LinkFrame::Notice, std::as_bytes(std::span(&n, 1)));
}

void ControlService::take(HostLink& from, LinkFrame type, std::span<const std::byte> bytes) try {
  switch (type) {
    case LinkFrame::Notice: {
      Notice notice;
      if (bytes.size() != sizeof notice)
        throw Error(Code::Mismatch, fmt::format("a notice of {} bytes, expected {}", bytes.size(), sizeof notice));
      std::memcpy(static_cast<void*>(&notice), bytes.data(), sizeof notice);
      learn_from_afar(notice);
      break;
    }
    case LinkFrame::Question: answer(from, bytes); break;
    case LinkFrame::Answer: {
      std::int32_t asker = -1;
      if (bytes.size() < sizeof asker)
        throw Error(Code::Mismatch, fmt::format("an answer of {} bytes, which names nobody", bytes.size()));
      std::memcpy(&asker, bytes.data(), sizeof asker);
      links_->answered(from);
      answered(asker, bytes.subspan(sizeof asker));
      break;
    }
  }
} catch (const Error& e) {
  log::warning("a control message of rank {} is not understood: {}", from.peer(), e.what());
}

void ControlService::learn_from_afar(Notice notice) {
  notice.from_afar = 1;
  if (!learn(notice)) return;
  {
    const std::scoped_lock lock(mutex_);
    pages_.page->board.post(notice);
  }
  tell_host();
}

void ControlService::out_of_reach(int world_rank, const std::string& why) {
  const ControlPeer& peer = peers_[static_cast<std::size_t>(world_rank)];
  learn_from_afar(
      Notice::of(NoticeKind::RankLost, world_rank, {Code::PeerLost, fmt::format("{} ended: {}", peer.name(), why)}));
}

void ControlService::ask(const Question& question) {
  if (linked_.load(std::memory_order_acquire)) thread_->post([this, bytes = question.encode()] { route(bytes); }, this);
}

/// To the hosts of the ranks asked about; a rank without links asks its host's speaker to do it.
void ControlService::route(std::span<const std::byte> bytes) {
  if (!links_) return;
  const Question question = Question::decode(bytes);
  std::set<std::string> hosts;
  for (const std::int32_t r : question.ranks) {
    if (r < 0 || r >= static_cast<int>(peers_.size())) return;
    const ControlPeer& p = peers_[static_cast<std::size_t>(r)];
    if (!p.page && living(r)) hosts.insert(p.host_id);
  }
  bool all = true;
  for (const std::string& h : hosts) all = links_->ask(h, bytes) && all;
  if (all || speaks() || question.asker != rank_) return;
  const std::string& own_host = peers_[static_cast<std::size_t>(rank_)].host_id;
  for (const ControlPeer& p : peers_) {
    if (p.rank >= rank_ || p.host_id != own_host || !living(p.rank)) continue;
    if (is_stopped(state_of_process(p.process))) continue;
    doorbell_.ring(p.doorbell, with_type(LinkFrame::Question, bytes));
    return;
  }
}

void ControlService::answer(HostLink& to, std::span<const std::byte> bytes) {
  const Question question = Question::decode(bytes);
  std::vector<RankReport> reports;
  const auto send = [&] {
    const std::int32_t asker = question.asker;
    to.send(LinkFrame::Answer, std::as_bytes(std::span(&asker, 1)), RankReport::encode(question, reports));
    reports.clear();
  };
  for (const std::int32_t r : question.ranks) {
    if (r < 0 || r >= static_cast<int>(peers_.size())) continue;
    const ControlPeer& p = peers_[static_cast<std::size_t>(r)];
    if (!p.page || !p.records) continue;
    const bool has_left = left(r) || p.page->left.load(std::memory_order_acquire) != 0;
    reports.push_back(report_on(p.records.get(), r, p.process, has_left, question));
    if (reports.size() == kReportsPerMessage) send();
  }
  send();
}

void ControlService::answered(int asker, std::span<const std::byte> bytes) {
  if (asker != rank_) {
    if (asker < 0 || asker >= static_cast<int>(peers_.size())) return;
    doorbell_.ring(peers_[static_cast<std::size_t>(asker)].doorbell, with_type(LinkFrame::Answer, bytes));
    return;
  }
  Question about;
  const std::vector<RankReport> reports = RankReport::decode(bytes, about);
  const std::scoped_lock lock(mutex_);
  if (answers_.size() > kMostAnswers) answers_.clear();
  for (const RankReport& r : reports) {
    answers_[{r.rank, about.communicator}] = {about.sequence, r, Clock::now()};
  }
}

std::optional<RankReport> ControlService::report(int rank, std::uint64_t communicator, std::uint32_t sequence) const {
  const std::scoped_lock lock(mutex_);
  const auto at = answers_.find({rank, communicator});
  if (at == answers_.end() || at->second.sequence != sequence || Clock::now() - at->second.at > kFresh) {
    return std::nullopt;
  }
  return at->second.report;
}

}  // namespace sinew
