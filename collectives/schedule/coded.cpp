#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/schedule/coded.hpp>
#include <sinew/collectives/schedule/dependencies.hpp>

namespace sinew {
namespace {

using Index = std::uint32_t;
constexpr Index kNotCoded = std::numeric_limits<Index>::max();

/// A value that one or more chunks hold.
struct Value {
  Index code = kNotCoded;  ///< the Scratch chunk with the coded form of the value
  bool settled = false;    ///< true if decoding `code` gives exactly this value
  Index holders = 0;       ///< the number of chunks that hold the value
};

/// Restates the steps in their order and keeps account of what every chunk holds.
class Coding {
 public:
  Coding(Collective collective, Program program, const std::function<bool(int)>& to_peer)
      : collective_(collective), to_(std::move(program)), to_peer_(to_peer), cells_(collective, to_) {
    users_.resize(to_.scratch_class.size());
    holds_.resize(cells_.first_scratch() + users_.size());
    for (Index& value : holds_) value = new_value({.holders = 1});
  }

  Program run() {
    const std::vector<Step> steps = std::exchange(to_.steps, {});
    for (const Step& s : steps) {
      if (s.op == Op::Send) {
        send(s);
      } else if (s.op == Op::Recv && to_peer_(s.peer)) {
        receive_coded(s);
      } else if (s.op == Op::Recv) {
        receive(s);
      } else {
        for (Index k = 0; k < s.dst.count; ++k) compute(s, k);
      }
    }
    for (Index i = 0; i < to_.out_class.size(); ++i) {
      const Slice out{Space::Out, i, 1};
      if (unsettled(out)) settle(out, out);
    }
    drop_unread();
    to_.dependencies.clear();
    derive_dependencies(collective_, to_);
    return std::move(to_);
  }

 private:
  static Slice part(Slice s, Index k) { return s.count == 0 ? s : s.part(static_cast<int>(k)); }
  static Slice scratch(Index chunk) { return {Space::Scratch, chunk, 1}; }

  Index new_value(const Value& value) {
    values_.push_back(value);
    return static_cast<Index>(values_.size() - 1);
  }
  Index& held(Slice chunk) { return holds_[cells_.of(chunk.space, chunk.first)]; }
  Value& value_of(Slice chunk) { return values_[held(chunk)]; }
  bool unsettled(Slice chunk) { return value_of(chunk).code != kNotCoded && !value_of(chunk).settled; }
  Index class_of(Slice chunk) const {
    if (chunk.space == Space::In) return to_.in_class[chunk.first];
    return chunk.space == Space::Out ? to_.out_class[chunk.first] : to_.scratch_class[chunk.first];
  }

  void emit(Step step) {
    step.deps = {};
    to_.steps.push_back(step);
  }
  void copy(Slice dst, Slice a, ElementMap map) { emit({.op = Op::Copy, .map = map, .a = a, .dst = dst}); }

  /// From here on the chunk holds this.
  void hold(Slice chunk, Index value) {
    Index& at = held(chunk);
    if (at == value) return;
    --values_[at].holders;
    if (values_[at].code != kNotCoded) leave(values_[at].code, 1);
    ++values_[value].holders;
    if (values_[value].code != kNotCoded) ++users_[values_[value].code];
    at = value;
  }
  /// Nobody asks for a code any more whose value is nowhere: its chunk serves again.
  void leave(Index code, Index holders) {
    users_[code] -= holders;
    if (users_[code] == 0) free_[to_.scratch_class[code]].push_back(code);
  }

  Index new_scratch(Index chunk_class) {
    to_.scratch_class.push_back(chunk_class);
    users_.push_back(0);
    holds_.push_back(new_value({.holders = 1}));
    return static_cast<Index>(users_.size() - 1);
  }
  /// One for the code of a chunk.
  Index take(Slice chunk) {
    const Index its_class = class_of(chunk) | kCoded;
    std::vector<Index>& free = free_[its_class];
    if (free.empty()) return new_scratch(its_class);
    const Index code = free.back();
    free.pop_back();
    return code;
  }
  /// As many new ones, side by side.
  Slice take_run(Slice chunks) {
    Slice run{Space::Scratch, static_cast<Index>(users_.size()), chunks.count};
    for (Index k = 0; k < chunks.count; ++k) new_scratch(class_of(part(chunks, k)) | kCoded);
    return run;
  }

  void encode(Slice chunk, Index code) {
    Value& value = value_of(chunk);
    if (value.code == kNotCoded) {
      copy(scratch(code), chunk, ElementMap::Encode);
    } else {
      copy(scratch(code), scratch(value.code), ElementMap::None);
      leave(value.code, value.holders);
    }
    value.code = code;
    users_[code] += value.holders;
  }
  /// The code of a run of chunks, side by side.
  Slice code_of(Slice chunks) {
    const Index first = value_of(part(chunks, 0)).code;
    bool there = first != kNotCoded;
    for (Index k = 1; k < chunks.count && there; ++k) there = value_of(part(chunks, k)).code == first + k;
    if (there) return {Space::Scratch, first, chunks.count};
    const Slice run = chunks.count == 1 ? scratch(take(chunks)) : take_run(chunks);
    for (Index k = 0; k < chunks.count; ++k) encode(part(chunks, k), run.first + k);
    return run;
  }

  /// `into` = what the others have of a chunk that was sent.
  void settle(Slice chunk, Slice into) {
    const Index code = value_of(chunk).code;
    copy(into, scratch(code), ElementMap::Decode);
    hold(into, new_value({.code = code, .settled = true}));
  }
  /// Where a chunk's value lies as the others have it, if it was sent.
  Slice settled(Slice chunk) {
    if (!unsettled(chunk)) return chunk;
    const Index value = held(chunk);
    const auto may_be_written = [&](Slice s) { return s.space != Space::In || cells_.shared(s.first); };
    Slice into = chunk;
    for (Index i = 0; !may_be_written(into) && i < to_.out_class.size(); ++i) {
      const Slice out{Space::Out, i, 1};
      if (value_of(out).settled && value_of(out).code == values_[value].code) return out;
      if (held(out) == value) into = out;
    }
    if (!may_be_written(into)) into = scratch(new_scratch(class_of(chunk)));
    settle(chunk, into);
    return into;
  }

  void send(Step s) {
    if (to_peer_(s.peer)) {
      s.a = code_of(s.a);
    } else if (s.a.count == 1) {
      s.a = settled(s.a);
    }
    emit(s);
  }

  void receive(Step s) {
    if (s.a.count == 1) s.a = settled(s.a);
    emit(s);
    for (Index k = 0; k < s.dst.count; ++k) hold(part(s.dst, k), new_value({}));
  }

  void receive_coded(const Step& s) {
    const Slice message = s.a.count == 0 ? room_for(s.dst) : take_run(s.dst);
    emit({.op = Op::Recv, .dst = message, .peer = s.peer, .match = s.match});
    for (Index k = 0; k < s.dst.count; ++k) {
      const Slice dst = part(s.dst, k);
      const Index code = message.first + k;
      if (s.a.count == 0) {
        copy(dst, scratch(code), ElementMap::Decode);
        hold(dst, new_value({.code = code, .settled = true}));
        continue;
      }
      Slice a = part(s.a, k);
      if (unsettled(a)) {
        copy(dst, scratch(value_of(a).code), ElementMap::Decode);
        a = dst;
      }
      emit({.op = Op::Reduce, .map = ElementMap::Decode, .a = a, .b = scratch(code), .dst = dst});
      if (s.map == ElementMap::Scale) copy(dst, dst, ElementMap::Scale);
      hold(dst, new_value({}));
      leave(code, 0);
    }
  }
  /// For the code of what will take the place of `chunks`: if it can be, where theirs is. Not any that is free: a
  /// receive would wait for what was there, and messages come as they like.
  Slice room_for(Slice chunks) {
    if (chunks.count > 1) return take_run(chunks);
    const Index before = value_of(chunks).code;
    if (before == kNotCoded || users_[before] > 1) return take_run(chunks);
    hold(chunks, new_value({}));
    return scratch(take(chunks));  // the latest to be free
  }

  void compute(const Step& whole, Index k) {
    Step s = whole;
    s.a = part(s.a, k);
    s.b = part(s.b, k);
    s.dst = part(s.dst, k);
    if (s.op == Op::Copy && s.map == ElementMap::None) {
      emit(s);
      return hold(s.dst, held(s.a));
    }
    s.a = settled(s.a);
    if (s.b.count > 0) s.b = settled(s.b);
    emit(s);
    hold(s.dst, new_value({}));
  }

  /// Such as the copy of a rank's own block, in whose place comes what the others decode.
  void drop_unread() {
    std::vector<bool> wanted(holds_.size());
    const auto want = [&](Slice s, bool yes) {
      for (Index k = 0; k < s.count; ++k) wanted[cells_.of(s.space, s.first + k)] = yes;
    };
    want({Space::Out, 0, static_cast<Index>(to_.out_class.size())}, true);
    std::vector<Step> kept;
    for (auto s = to_.steps.rbegin(); s != to_.steps.rend(); ++s) {
      const bool message = s->op == Op::Send || s->op == Op::Recv;
      if (!message && !wanted[cells_.of(s->dst.space, s->dst.first)]) continue;
      want(s->dst, false);
      want(s->a, true);
      want(s->b, true);
      kept.push_back(*s);
    }
    to_.steps.assign(kept.rbegin(), kept.rend());
  }

  Collective collective_;
  Program to_;
  const std::function<bool(int)>& to_peer_;
  Cells cells_;
  std::vector<Value> values_;
  std::vector<Index> holds_;                            ///< by cell
  std::vector<Index> users_;                            ///< by Scratch chunk: chunks that hold what it has coded
  std::unordered_map<Index, std::vector<Index>> free_;  ///< by class
};

}  // namespace

Program code_messages(Collective collective, Program program, const std::function<bool(int peer)>& to_peer) {
  return Coding(collective, std::move(program), to_peer).run();
}

}  // namespace sinew
