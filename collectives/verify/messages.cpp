#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/verify/checks.hpp>

namespace sinew::verifier {
namespace {

/// Steps of one kind, sorted by the pair of ranks they connect and by their number within the pair.
class Ends {
 public:
  Ends(const Schedule& schedule, Op op) : ranks_(schedule.programs.size()), first_(ranks_ * ranks_ + 1) {
    for (std::size_t r = 0; r < ranks_; ++r) {
      for (const Step& s : schedule.programs[r].steps) first_[pair(op, r, s) + 1] += s.op == op ? 1 : 0;
    }
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    steps_.resize(first_.back());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t r = 0; r < ranks_; ++r) {
      const auto& steps = schedule.programs[r].steps;
      for (std::uint32_t i = 0; i < steps.size(); ++i) {
        if (steps[i].op == op) steps_[next[pair(op, r, steps[i])]++] = i;
      }
    }
  }

  std::uint32_t count(std::size_t from, std::size_t to) const {
    return first_[from * ranks_ + to + 1] - first_[from * ranks_ + to];
  }
  std::uint32_t step(std::size_t from, std::size_t to, std::uint32_t k) const {
    return steps_[first_[from * ranks_ + to] + k];
  }

 private:
  std::size_t pair(Op op, std::size_t rank, const Step& s) const {
    const auto peer = static_cast<std::size_t>(std::max(s.peer, 0));
    return op == Op::Send ? rank * ranks_ + peer : peer * ranks_ + rank;
  }

  std::size_t ranks_;
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> steps_;
};

bool equal_classes(const Program& from, Slice a, const Program& to, Slice dst) {
  const auto sent = classes_of(from, a.space).begin() + a.first;
  const auto taken = classes_of(to, dst.space).begin() + dst.first;
  return a.count == dst.count && std::equal(sent, sent + a.count, taken);
}

ScheduleVerdict misnumbered(const Schedule& schedule, std::size_t rank, std::uint32_t step, std::uint32_t k) {
  return reject(schedule, rank, static_cast<int>(step), fmt::format("is message {} of the two ranks", k));
}

/// All messages from one rank to another.
ScheduleVerdict match_pair(const Schedule& schedule, std::size_t from, std::size_t to, const Ends& sends,
                           const Ends& recvs, Partners& partners) {
  const std::uint32_t count = sends.count(from, to);
  if (count != recvs.count(from, to)) {
    return reject(schedule, to, -1,
                  fmt::format("takes {} messages from rank {}, which sends {}", recvs.count(from, to), from, count));
  }
  const Program& p = schedule.programs[from];
  const Program& q = schedule.programs[to];
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint32_t send = sends.step(from, to, k);
    const std::uint32_t recv = recvs.step(from, to, k);
    if (p.steps[send].match != k) return misnumbered(schedule, from, send, k);
    if (q.steps[recv].match != k) return misnumbered(schedule, to, recv, k);
    if (!equal_classes(p, p.steps[send].a, q, q.steps[recv].dst)) {
      return reject(schedule, to, static_cast<int>(recv),
                    fmt::format("takes chunks of other classes than {} of rank {} sends", name_of(p, send), from));
    }
    partners[from][send] = recv;
    partners[to][recv] = send;
  }
  return {};
}

}  // namespace

ScheduleVerdict match_messages(const Schedule& schedule, Partners& partners) {
  const std::size_t ranks = schedule.programs.size();
  partners.clear();
  for (const Program& p : schedule.programs) partners.emplace_back(p.steps.size());
  const Ends sends(schedule, Op::Send);
  const Ends recvs(schedule, Op::Recv);
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      if (ScheduleVerdict v = match_pair(schedule, from, to, sends, recvs, partners); !v) return v;
    }
  }
  return {};
}

}  // namespace sinew::verifier
