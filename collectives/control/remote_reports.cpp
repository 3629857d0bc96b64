#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include <fmt/format.h>

#include <sinew/collectives/control/remote_reports.hpp>
#include <sinew/core/error.hpp>

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

void RemoteReports::ask(HostLinks& links, std::span<const std::byte> bytes) {
  const Question question = Question::decode(bytes);
  std::set<std::string> hosts;
  for (const std::int32_t r : question.ranks) {
    if (!is_rank(r)) return;
    if (!peer(r).page && user_.is_living(r)) hosts.insert(peer(r).host_id);
  }
  bool all = true;
  for (const std::string& h : hosts) all = links.ask(h, bytes) && all;
  if (all || question.asker != rank_) return;
  const int speaker = user_.speaker();
  if (speaker != rank_) doorbell_.ring(peer(speaker).doorbell, with_type(LinkFrame::Question, bytes));
}

void RemoteReports::answer(HostLink& to, std::span<const std::byte> bytes) const {
  const Question question = Question::decode(bytes);
  std::vector<RankReport> reports;
  const auto send = [&] {
    const std::int32_t asker = question.asker;
    to.send(LinkFrame::Answer, std::as_bytes(std::span(&asker, 1)), RankReport::encode(question, reports));
    reports.clear();
  };
  for (const std::int32_t r : question.ranks) {
    if (!is_rank(r) || !peer(r).page || !peer(r).records) continue;
    const bool left = peer(r).page->left.load(std::memory_order_acquire) != 0;
    reports.push_back(report_on(peer(r).records.get(), r, peer(r).process, left, question));
    if (reports.size() == kReportsPerMessage) send();
  }
  send();
}

void RemoteReports::take(std::span<const std::byte> bytes) {
  std::int32_t asker = -1;
  if (bytes.size() < sizeof asker)
    throw Error(Code::Mismatch, fmt::format("an answer of {} bytes, which names nobody", bytes.size()));
  std::memcpy(&asker, bytes.data(), sizeof asker);
  const auto reports = bytes.subspan(sizeof asker);
  if (asker == rank_) return keep(reports);
  if (is_rank(asker)) doorbell_.ring(peer(asker).doorbell, with_type(LinkFrame::Answer, reports));
}

void RemoteReports::keep(std::span<const std::byte> bytes) {
  Question about;
  const std::vector<RankReport> reports = RankReport::decode(bytes, about);
  const std::scoped_lock lock(mutex_);
  if (answers_.size() > kMostAnswers) answers_.clear();
  for (const RankReport& r : reports) answers_[{r.rank, about.communicator}] = {about.sequence, r, Clock::now()};
}

std::optional<RankReport> RemoteReports::report(int rank, std::uint64_t communicator, std::uint32_t sequence) const {
  const std::scoped_lock lock(mutex_);
  const auto at = answers_.find({rank, communicator});
  if (at == answers_.end() || at->second.sequence != sequence || Clock::now() - at->second.at > kFresh) {
    return std::nullopt;
  }
  return at->second.report;
}

}  // namespace sinew
