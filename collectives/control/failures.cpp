#include <algorithm>

#include <sinew/collectives/control/failures.hpp>

namespace sinew {

bool Failures::learn(const Notice& notice) {
  const auto rank = static_cast<std::size_t>(notice.world_rank);
  switch (notice.kind) {
    case NoticeKind::RankLost:
      if (rank >= lost_.size() || lost_[rank] || left_[rank]) return false;
      lost_[rank] = notice;
      lost_order_.push_back(notice.world_rank);
      return true;
    case NoticeKind::RankLeft:
      if (rank >= left_.size() || left_[rank]) return false;
      left_[rank] = true;
      return true;
    case NoticeKind::CommunicatorEnded:
      if (!ended_.emplace(notice.communicator, notice).second) return false;
      ended_order_.push_back(notice.communicator);
      if (ended_order_.size() > kMostEnded) {
        ended_.erase(ended_order_.front());
        ended_order_.erase(ended_order_.begin());
      }
      return true;
    case NoticeKind::WorldEnded:
      if (world_) return false;
      world_ = notice;
      return true;
    case NoticeKind::Proposal: return learn_later(proposals_, notice);
    case NoticeKind::Vote: return learn_later(votes_, notice);
    case NoticeKind::Suspicion: return true;
  }
  return false;
}

bool Failures::learn_later(ByRank& known, const Notice& notice) {
  const auto [at, fresh] = known.try_emplace(notice.world_rank, notice);
  if (fresh) return true;
  if (at->second.communicator >= notice.communicator) return false;
  at->second = notice;
  return true;
}

Status Failures::end_of(std::uint64_t communicator, const std::vector<int>& world_ranks) const {
  if (const auto at = ended_.find(communicator); at != ended_.end()) return at->second.status();
  for (const int rank : lost_order_) {  // the first is why others may have ended since
    const auto at = std::ranges::find(world_ranks, rank);
    if (at == world_ranks.end()) continue;
    const Notice& lost = *lost_[static_cast<std::size_t>(rank)];
    return {lost.code, std::string(lost.message()), static_cast<int>(at - world_ranks.begin())};
  }
  if (!world_) return {};
  const auto at = std::ranges::find(world_ranks, world_->blamed);
  return {world_->code, std::string(world_->message()),
          at == world_ranks.end() ? -1 : static_cast<int>(at - world_ranks.begin())};
}

Status Failures::world_end() const {
  if (lost_order_.empty()) return world_ ? world_->status() : Status();
  const int first = lost_order_.front();
  const Notice& lost = *lost_[static_cast<std::size_t>(first)];
  return {lost.code, std::string(lost.message()), first};
}

std::vector<Notice> Failures::all() const {
  std::vector<Notice> notices;
  for (const int rank : lost_order_) notices.push_back(*lost_[static_cast<std::size_t>(rank)]);
  for (std::size_t r = 0; r < left_.size(); ++r) {
    if (left_[r]) notices.push_back(Notice::of(NoticeKind::RankLeft, static_cast<int>(r), {}));
  }
  for (const std::uint64_t communicator : ended_order_) notices.push_back(ended_.at(communicator));
  if (world_) notices.push_back(*world_);
  for (const auto& [rank, n] : proposals_) notices.push_back(n);
  for (const auto& [rank, n] : votes_) notices.push_back(n);
  return notices;
}

}  // namespace sinew
