#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include <sinew/collectives/schedule.hpp>

namespace sinew::fakes {

/// Runs a schedule on integers: an independent reading of what the steps mean. Each rank has memory of its own, in
/// place its In and Out are one buffer as the user would pass it; steps that may run do so in an order drawn by chance,
/// and a message moves only when both its ends may run.
class Interpreter {
 public:
  using Value = std::int64_t;
  /// Elements of a chunk, by its class.
  using Sizes = std::function<std::size_t(std::uint32_t)>;
  using Scale = std::function<Value(Value)>;
  /// What a coded element stands for; it decodes to that.
  using Encode = std::function<Value(Value)>;

  Interpreter(const Schedule& schedule, const Sizes& sizes, Scale scale, unsigned seed, Encode encode = std::identity())
      : schedule_(schedule), scale_(std::move(scale)), encode_(std::move(encode)), random_(seed) {
    for (const Program& p : schedule.programs) ranks_.emplace_back(schedule.desc.collective, p, sizes);
  }

  std::span<Value> chunk(int rank, Space space, std::uint32_t index) {
    return ranks_[static_cast<std::size_t>(rank)].chunk(space, index);
  }

  /// False where some steps can never run.
  bool run() {
    std::vector<std::pair<std::size_t, std::size_t>> pending;  // rank, step
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::size_t s = 0; s < schedule_.programs[r].steps.size(); ++s) pending.emplace_back(r, s);
    }
    for (bool moved = true; moved;) {
      std::shuffle(pending.begin(), pending.end(), random_);
      moved = false;
      for (const auto& [rank, step] : pending) moved = try_step(rank, step) || moved;
      std::erase_if(pending, [&](const auto& p) { return ranks_[p.first].done[p.second]; });
    }
    return pending.empty();
  }

 private:
  struct Rank {
    Rank(Collective collective, const Program& p, const Sizes& sizes)
        : in(starts(p.in_class, sizes)),
          out(starts(p.out_class, sizes)),
          scratch(starts(p.scratch_class, sizes)),
          done(p.steps.size()) {
      // Out of place: input, then output. In place: the larger buffer, the other one a part of it.
      const bool gathers = collective == Collective::AllGather || collective == Collective::AllGatherV ||
                           collective == Collective::Gather || collective == Collective::GatherV;
      const bool scatters = collective == Collective::ReduceScatter || collective == Collective::ReduceScatterV ||
                            collective == Collective::Scatter || collective == Collective::ScatterV;
      const auto rank = static_cast<std::size_t>(p.rank);
      const bool both = p.in_place && !p.in_class.empty() && !p.out_class.empty();
      out_base = both ? (scatters ? in[rank] : 0) : in.back();
      in_base = both && gathers ? out[rank] : 0;
      user.assign(in.back() + out.back(), -1);
      own.assign(scratch.back(), -1);
    }

    static std::vector<std::size_t> starts(const std::vector<std::uint32_t>& classes, const Sizes& sizes) {
      std::vector<std::size_t> at(classes.size() + 1);
      for (std::size_t i = 0; i < classes.size(); ++i) at[i + 1] = at[i] + sizes(classes[i] & ~kCoded);
      return at;
    }

    std::span<Value> chunk(Space space, std::uint32_t i) {
      const auto& at = space == Space::In ? in : space == Space::Out ? out : scratch;
      const std::size_t base = space == Space::In ? in_base : space == Space::Out ? out_base : 0;
      return std::span(space == Space::Scratch ? own : user).subspan(base + at[i], at[i + 1] - at[i]);
    }

    std::vector<std::size_t> in, out, scratch;  ///< where each chunk starts
    std::size_t in_base = 0, out_base = 0;
    std::vector<Value> user, own;
    std::vector<bool> done;
  };

  bool may_run(std::size_t rank, std::size_t step) const {
    const Program& p = schedule_.programs[rank];
    const DepRange deps = p.steps[step].deps;
    if (ranks_[rank].done[step]) return false;
    for (std::uint32_t k = 0; k < deps.count; ++k) {
      if (!ranks_[rank].done[p.dependencies[deps.first + k]]) return false;
    }
    return true;
  }

  bool try_step(std::size_t rank, std::size_t step) {
    const Step& s = schedule_.programs[rank].steps[step];
    if (s.op == Op::Recv || !may_run(rank, step)) return false;  // a receive runs with its send
    if (s.op != Op::Send) {
      apply(rank, s, load(rank, s.a));
      ranks_[rank].done[step] = true;
      return true;
    }
    const auto peer = static_cast<std::size_t>(s.peer);
    const auto& theirs = schedule_.programs[peer].steps;
    for (std::size_t t = 0; t < theirs.size(); ++t) {
      if (theirs[t].op != Op::Recv || theirs[t].peer != static_cast<int>(rank) || theirs[t].match != s.match) continue;
      if (!may_run(peer, t)) return false;
      apply(peer, theirs[t], load(rank, s.a));
      ranks_[rank].done[step] = ranks_[peer].done[t] = true;
      return true;
    }
    return false;
  }

  std::vector<Value> load(std::size_t rank, Slice slice) {
    std::vector<Value> values;
    for (std::uint32_t k = 0; k < slice.count; ++k) {
      const auto c = ranks_[rank].chunk(slice.space, slice.first + k);
      values.insert(values.end(), c.begin(), c.end());
    }
    return values;
  }

  /// `first` is what a local step reads from a, or what a receive takes from its message.
  void apply(std::size_t rank, const Step& s, std::vector<Value> first) {
    const Slice other = s.op == Op::Recv ? s.a : s.op == Op::Reduce ? s.b : Slice{};
    if (other.count > 0) {
      const std::vector<Value> second = load(rank, other);
      std::transform(first.begin(), first.end(), second.begin(), first.begin(), std::plus<>());
    }
    if (s.map == ElementMap::Scale) std::transform(first.begin(), first.end(), first.begin(), scale_);
    if (s.map == ElementMap::Encode) std::transform(first.begin(), first.end(), first.begin(), encode_);
    auto from = first.begin();
    for (std::uint32_t k = 0; k < s.dst.count; ++k) {
      const auto c = ranks_[rank].chunk(s.dst.space, s.dst.first + k);
      std::copy_n(from, c.size(), c.begin());
      from += static_cast<std::ptrdiff_t>(c.size());
    }
  }

  const Schedule& schedule_;
  Scale scale_;
  Encode encode_;
  std::mt19937 random_;
  std::vector<Rank> ranks_;
};

}  // namespace sinew::fakes
