#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/verify/checks.hpp>

namespace sinew::verifier {
namespace {

using Index = std::uint32_t;

Kind kind_of(ElementMap map) {
  return map == ElementMap::Scale ? Kind::Scale : map == ElementMap::Encode ? Kind::Encode : Kind::Decode;
}

/// How far one rank has come.
struct Rank {
  explicit Rank(const Program& p) : waits_for(p.steps.size()), first(p.steps.size() + 1), done(p.steps.size()) {
    for (const Step& s : p.steps) {
      for (Index k = 0; k < s.deps.count; ++k) ++first[p.dependencies[s.deps.first + k] + 1];
    }
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    successors.resize(first.back());
    std::vector<Index> next(first.begin(), first.end() - 1);
    for (Index i = 0; i < p.steps.size(); ++i) {
      const DepRange deps = p.steps[i].deps;
      waits_for[i] = deps.count;
      for (Index k = 0; k < deps.count; ++k) successors[next[p.dependencies[deps.first + k]]++] = i;
    }
  }

  std::vector<Index> waits_for;  ///< predecessors that are not done
  std::vector<Index> first;      ///< successors of step i: [first[i], first[i + 1])
  std::vector<Index> successors;
  std::vector<bool> done;
};

class Execution {
 public:
  Execution(const Schedule& schedule, const Partners& partners, Memory& memory)
      : schedule_(schedule), partners_(partners), memory_(memory) {
    for (const Program& p : schedule.programs) ranks_.emplace_back(p);
  }

  ScheduleVerdict run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (Index i = 0; i < ranks_[r].done.size(); ++i) {
        if (ranks_[r].waits_for[i] == 0) started_.emplace_back(r, i);
      }
    }
    while (!started_.empty()) {
      const auto [rank, step] = started_.back();
      started_.pop_back();
      if (ScheduleVerdict v = advance(rank, step); !v) return v;
    }
    return check_all_done();
  }

 private:
  /// A step has started: local ones are done at once, messages when the other end has started too.
  ScheduleVerdict advance(std::size_t rank, Index step) {
    const Step& s = schedule_.programs[rank].steps[step];
    if (s.op == Op::Copy || s.op == Op::Reduce) {
      if (ScheduleVerdict v = store(rank, step, rank, s.a, s.b); !v) return v;
      finish(rank, step);
      return {};
    }
    const auto peer = static_cast<std::size_t>(s.peer);
    const Index other = partners_[rank][step];
    if (ranks_[peer].waits_for[other] > 0) return {};
    const bool sends = s.op == Op::Send;
    if (ranks_[rank].done[step]) return {};
    const std::size_t to = sends ? peer : rank;
    const Index recv = sends ? other : step;
    const std::size_t from = sends ? rank : peer;
    const Step& send = schedule_.programs[from].steps[sends ? step : other];
    if (ScheduleVerdict v = store(to, recv, from, send.a, schedule_.programs[to].steps[recv].a); !v) return v;
    finish(rank, step);
    finish(peer, other);
    return {};
  }

  /// dst of the step = what `from` holds in `a`, plus its own `b` where there is one.
  ScheduleVerdict store(std::size_t rank, Index step, std::size_t from, Slice a, Slice b) {
    const Step& s = schedule_.programs[rank].steps[step];
    for (Index k = 0; k < s.dst.count; ++k) {
      Value value = memory_.at(from, a.space, a.first + k);
      if (value == kUndefined) return undefined(rank, step, from, a.space, a.first + k);
      if (b.count > 0) {
        Value own = memory_.at(rank, b.space, b.first + k);
        if (own == kUndefined) return undefined(rank, step, rank, b.space, b.first + k);
        if (s.map == ElementMap::Decode) own = memory_.expressions.apply(Kind::Decode, own);
        value = memory_.expressions.sum(value, own);
        if (s.map == ElementMap::Scale) value = memory_.expressions.apply(Kind::Scale, value);
      } else if (s.map != ElementMap::None) {
        value = memory_.expressions.apply(kind_of(s.map), value);
      }
      memory_.at(rank, s.dst.space, s.dst.first + k) = value;
    }
    return {};
  }

  ScheduleVerdict undefined(std::size_t rank, Index step, std::size_t from, Space space, Index chunk) const {
    return reject(schedule_, rank, static_cast<int>(step),
                  fmt::format("takes {} of rank {}, where nothing was written", chunk_name(space, chunk), from));
  }

  void finish(std::size_t rank, Index step) {
    Rank& r = ranks_[rank];
    r.done[step] = true;
    ++finished_;
    for (Index k = r.first[step]; k < r.first[step + 1]; ++k) {
      if (--r.waits_for[r.successors[k]] == 0) started_.emplace_back(rank, r.successors[k]);
    }
  }

  /// If anything is left, some message has started at one end only, and the other end waits for another such message.
  ScheduleVerdict check_all_done() const {
    std::size_t steps = 0;
    for (const Program& p : schedule_.programs) steps += p.steps.size();
    if (finished_ == steps) return {};
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (Index i = 0; i < ranks_[r].done.size(); ++i) {
        if (ranks_[r].done[i] || ranks_[r].waits_for[i] > 0) continue;
        const auto peer = static_cast<std::size_t>(schedule_.programs[r].steps[i].peer);
        const std::string other = name_of(schedule_.programs[peer], partners_[r][i]);
        return reject(schedule_, r, static_cast<int>(i),
                      fmt::format("waits forever: {} of rank {} can never start", other, peer));
      }
    }
    return {};
  }

  const Schedule& schedule_;
  const Partners& partners_;
  Memory& memory_;
  std::vector<Rank> ranks_;
  std::vector<std::pair<std::size_t, Index>> started_;
  std::size_t finished_ = 0;
};

}  // namespace

Memory::Memory(const Schedule& schedule) {
  for (const Program& p : schedule.programs) {
    const Cells& cell = cells.emplace_back(schedule.desc.collective, p);
    auto& mine = held.emplace_back(cell.first_scratch() + p.scratch_class.size(), kUndefined);
    auto& given = inputs.emplace_back();
    for (Index i = 0; i < p.in_class.size(); ++i) {
      given.push_back(expressions.input(static_cast<Index>(p.rank), i));
      mine[cell.of(Space::In, i)] = given.back();
    }
  }
}

ScheduleVerdict execute(const Schedule& schedule, const Partners& partners, Memory& memory) {
  return Execution(schedule, partners, memory).run();
}

}  // namespace sinew::verifier
