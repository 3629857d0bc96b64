#include <algorithm>
#include <optional>

#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/placement/redistribution/moves.hpp>
#include <sinew/parallel/placement/redistribution/neutral.hpp>
#include <sinew/parallel/placement/shard_arithmetic.hpp>
#include <sinew/parallel/placement/validity.hpp>

namespace sinew::parallel {
namespace {

/// The collective that leads from one placement to the other, for even cuts. Empty if it takes more than one step.
std::optional<Collective> collective_between(const Placement& from, const Placement& to) noexcept {
  const auto* sum = std::get_if<Partial>(&to);
  if (std::holds_alternative<Replicate>(from)) return Collective::Barrier;
  if (std::holds_alternative<Shard>(from)) {
    if (sum != nullptr) return has_neutral(sum->op) ? std::optional(Collective::Barrier) : std::nullopt;
    return std::holds_alternative<Replicate>(to) ? Collective::AllGather : Collective::AllToAll;
  }
  if (sum != nullptr) return std::nullopt;
  return std::holds_alternative<Replicate>(to) ? Collective::AllReduce : Collective::ReduceScatter;
}

/// One dimension of a move's collective: how `whole` is cut, among boxes of these extents.
struct Cut {
  const Shard& shard;
  int parts;
  const Extents& whole;

  std::size_t dim() const noexcept { return static_cast<std::size_t>(shard.dim); }
  bool even() const noexcept { return cuts_evenly(shard, parts, whole[dim()]); }
  /// The parts of the largest box.
  std::vector<std::uint64_t> counts() const {
    const std::int64_t extent = whole[dim()].back();
    const std::uint64_t row = extent == 0 ? 0 : most_elements(whole) / static_cast<std::uint64_t>(extent);
    std::vector<std::uint64_t> counts;
    for (int i = 0; i < parts; ++i)
      counts.push_back(static_cast<std::uint64_t>(rows_of(shard, i, parts, extent).count()) * row);
    return counts;
  }
  /// Elements that have to be put in order: none where the parts lie one behind the other.
  std::uint64_t repacked() const noexcept {
    const bool leads =
        std::all_of(whole.begin(), whole.begin() + shard.dim, [](const auto& e) { return e.back() < 2; });
    return leads ? 0 : most_elements(whole);
  }
};

void ask_of_parts(Question& q, const Cut& cut, Collective uneven, std::uint64_t part) {
  if (cut.even()) {
    q.count = part;
  } else {
    q.collective = uneven;
    q.counts = cut.counts();
  }
}

/// Fills in the question and the copies of a move whose collective is known.
void weigh(Move& move, const Extents& before, const Extents& after, int parts, DType dtype) {
  Question& q = move.question;
  const std::uint64_t in = most_elements(before);
  const std::uint64_t out = most_elements(after);
  std::uint64_t copied = 0;
  switch (q.collective) {
    case Collective::AllReduce: q.count = in; break;
    case Collective::AllGather: {
      const Cut cut{std::get<Shard>(move.from), parts, after};
      ask_of_parts(q, cut, Collective::AllGatherV, in);
      copied = cut.repacked();
      break;
    }
    case Collective::ReduceScatter: {
      const Cut cut{std::get<Shard>(move.to), parts, before};
      ask_of_parts(q, cut, Collective::ReduceScatterV, out);
      copied = cut.repacked();
      break;
    }
    case Collective::AllToAll: {
      const Cut gathered{std::get<Shard>(move.from), parts, after};
      const Cut given{std::get<Shard>(move.to), parts, before};
      if (gathered.dim() != given.dim() && gathered.even() && given.even()) {
        q.count = in / static_cast<std::uint64_t>(parts);
      } else {
        q.collective = Collective::AllToAllV;
        q.largest_bytes = std::max(in, out) * size_of(dtype);
      }
      copied = given.repacked() + gathered.repacked();
      break;
    }
    default: copied = out;  // Barrier
  }
  move.copied_bytes = copied * size_of(dtype);
}

/// Does no later placement have to go first?
bool is_innermost(const TensorSpec& state, std::string_view axis) {
  const auto& entries = state.placements.entries();
  const auto mine = std::ranges::find(entries, axis, &Placements::Entry::axis);
  return mine == entries.end() || std::none_of(mine + 1, entries.end(), [&](const auto& later) {
           return is_ordered(mine->placement, later.placement, state.dtype);
         });
}

template <class T>
void add(std::vector<T>& list, const T& item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(item);
}

}  // namespace

CollectiveDesc Question::desc() const noexcept {
  return {.collective = collective,
          .dtype = dtype,
          .op = op,
          .count = count,
          .counts = counts,
          .largest_bytes = largest_bytes};
}

std::vector<Choices> choices_between(const Placements& from, const Placements& to) {
  std::vector<std::string> axes;
  std::vector<Placement> shards;
  for (const Placements* side : {&from, &to}) {
    for (const auto& [axis, placement] : side->entries()) {
      add(axes, axis);
      if (const auto* shard = std::get_if<Shard>(&placement)) add(shards, Placement(Shard{shard->dim, {}}));
    }
  }
  std::vector<Choices> all;
  for (std::string& axis : axes) {
    std::vector<Placement> placements{Replicate{}};
    add(placements, from.along(axis));
    add(placements, to.along(axis));
    for (const Placement& shard : shards) add(placements, shard);
    all.push_back({std::move(axis), std::move(placements)});
  }
  return all;
}

std::vector<Move> moves_from(const TensorSpec& state, std::span<const Choices> choices, const Factorisation& mesh) {
  std::vector<Move> moves;
  const Extents before = local_extents(state, mesh);
  for (const auto& [axis, placements] : choices) {
    if (!is_innermost(state, axis)) continue;
    const Placement& from = state.placements.along(axis);
    for (const Placement& to : placements) {
      const std::optional<Collective> collective = collective_between(from, to);
      if (from == to || !collective) continue;
      TensorSpec after = state;
      after.placements = state.placements.with(axis, to);
      if (!fault_of(after, mesh).empty()) continue;
      Move move{.axis = axis, .from = from, .to = to, .after = normal_form(after, mesh)};
      if (move.after == state.placements) continue;
      move.question = {.axis = axis, .collective = *collective, .dtype = state.dtype};
      if (const auto* partial = std::get_if<Partial>(&from)) move.question.op = partial->op;
      weigh(move, before, local_extents(after, mesh), mesh.size(axis), state.dtype);
      moves.push_back(std::move(move));
    }
  }
  return moves;
}

}  // namespace sinew::parallel
