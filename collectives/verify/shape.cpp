#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/schedule/frame.hpp>
#include <sinew/collectives/schedule/schedule_text.hpp>
#include <sinew/collectives/verify/checks.hpp>

namespace sinew::verifier {
namespace {

/// Which slices a step of each kind has; `maybe` allows a third for a reducing receive.
bool has_its_slices(const Step& s) {
  const bool a = s.a.count > 0;
  const bool b = s.b.count > 0;
  const bool dst = s.dst.count > 0;
  switch (s.op) {
    case Op::Send: return a && !b && !dst;
    case Op::Recv: return !b && dst;
    case Op::Copy: return a && !b && dst;
    case Op::Reduce: return a && b && dst;
  }
  return false;
}

/// Encoding is a copy of one chunk, decoding that or a sum with one; scaling is of whatever is no message.
bool may_have_its_map(const Step& s) {
  switch (s.map) {
    case ElementMap::None: return true;
    case ElementMap::Scale: return s.op != Op::Send && !(s.op == Op::Recv && s.a.count == 0);
    case ElementMap::Encode: return s.op == Op::Copy && s.dst.count == 1;
    case ElementMap::Decode: return (s.op == Op::Copy || s.op == Op::Reduce) && s.dst.count == 1;
  }
  return false;
}

bool is_coded(const Program& p, Slice s) {
  return s.space == Space::Scratch && (p.scratch_class[s.first] & kCoded) != 0;
}

bool is_mixed(const Program& p, Slice s) {
  for (std::uint32_t k = 1; k < s.count; ++k) {
    if (is_coded(p, s.part(static_cast<int>(k))) != is_coded(p, s)) return true;
  }
  return false;
}

/// Whether the coded ones among a step's slices are those that its map makes or takes. Without a map only what moves a
/// chunk as it is may be on coded ones.
bool codes_its_slices(const Program& p, const Step& s) {
  const bool a = s.a.count > 0 && is_coded(p, s.a);
  const bool b = s.b.count > 0 && is_coded(p, s.b);
  const bool dst = s.dst.count > 0 && is_coded(p, s.dst);
  if (s.map == ElementMap::Encode) return !a && dst;
  if (s.map == ElementMap::Decode) return a == (s.op == Op::Copy) && b == (s.op == Op::Reduce) && !dst;
  const bool sums = s.op == Op::Reduce || (s.op == Op::Recv && s.a.count > 0) || s.map == ElementMap::Scale;
  return !sums || (!a && !b && !dst);
}

bool inside(const Program& p, Slice s) {
  return s.count == 0 || std::uint64_t{s.first} + s.count <= classes_of(p, s.space).size();
}

/// `coding`: one of the two is the coded form of the other.
bool equal_classes(const Program& p, Slice x, Slice y, bool coding = false) {
  if (x.count == 0 || y.count == 0) return true;
  const auto xs = classes_of(p, x.space).begin() + x.first;
  const auto ys = classes_of(p, y.space).begin() + y.first;
  const std::uint32_t differ = coding ? kCoded : 0;
  return x.count == y.count && std::equal(xs, xs + x.count, ys, [&](auto a, auto b) { return (a ^ b) == differ; });
}

/// A result may go where an operand is, chunk for chunk, but not beside it.
bool overlaps_shifted(const Cells& cells, Slice dst, Slice a) {
  for (std::uint32_t i = 0; i < dst.count; ++i) {
    for (std::uint32_t k = 0; k < a.count; ++k) {
      if (i != k && cells.of(dst.space, dst.first + i) == cells.of(a.space, a.first + k)) return true;
    }
  }
  return false;
}

/// What is wrong with a step by itself; empty: nothing.
std::string fault_of(const Program& p, const Cells& cells, std::uint32_t index) {
  const Step& s = p.steps[index];
  if (!has_its_slices(s)) return "has a slice too many or too few";
  if (!may_have_its_map(s)) return "has an element map that a message without a sum cannot have";
  if (!inside(p, s.a) || !inside(p, s.b) || !inside(p, s.dst)) return "names a chunk that is not there";
  if (is_mixed(p, s.a) || is_mixed(p, s.b) || is_mixed(p, s.dst)) return "moves coded chunks and others in one run";
  if (!codes_its_slices(p, s)) return "uses coded chunks otherwise than to code, or to move them";
  const bool codes = s.map == ElementMap::Encode || s.map == ElementMap::Decode;
  const bool codes_copy = codes && s.op == Op::Copy;
  if (!equal_classes(p, s.a, s.b, codes) || !equal_classes(p, s.a, s.dst, codes_copy))
    return "mixes chunks of different classes";
  if (!p.whole && std::max({s.a.count, s.b.count, s.dst.count}) > 1) return "moves a run of chunks that may be cut";
  const bool message = s.op == Op::Send || s.op == Op::Recv;
  if (message && (s.peer < 0 || s.peer >= p.ranks || s.peer == p.rank)) return "has no such peer";
  if (std::uint64_t{s.deps.first} + s.deps.count > p.dependencies.size())
    return "names dependencies that are not there";
  for (std::uint32_t k = 0; k < s.deps.count; ++k) {
    const std::uint32_t before = p.dependencies[s.deps.first + k];
    if (before >= index) return fmt::format("waits for step {}, which does not come before it", before);
  }
  for (std::uint32_t k = 0; s.dst.space == Space::In && k < s.dst.count; ++k) {
    if (!cells.shared(s.dst.first + k))
      return fmt::format("writes {}, an input", chunk_name(Space::In, s.dst.first + k));
  }
  if (overlaps_shifted(cells, s.dst, s.a) || overlaps_shifted(cells, s.dst, s.b)) return "overwrites its own operand";
  if (s.op == Op::Copy && s.map == ElementMap::None && cells.same(s.dst, s.a)) return "copies a chunk onto itself";
  return {};
}

}  // namespace

const std::vector<std::uint32_t>& classes_of(const Program& p, Space space) noexcept {
  return space == Space::In ? p.in_class : space == Space::Out ? p.out_class : p.scratch_class;
}

ScheduleVerdict check_shape(const Schedule& schedule) {
  const auto ranks = static_cast<int>(schedule.programs.size());
  const CollectiveDesc& desc = schedule.desc;
  if (ranks == 0) return {false, -1, -1, "the schedule has no programs"};
  if (has_root(desc.collective) && (desc.root < 0 || desc.root >= ranks)) {
    return {false, -1, -1, fmt::format("root {} is not one of {} ranks", desc.root, ranks)};
  }
  const Program& with_input = schedule.programs[has_root(desc.collective) ? static_cast<std::size_t>(desc.root) : 0];
  const auto chunks = std::max(1, static_cast<int>(with_input.in_class.size()));
  for (std::size_t rank = 0; rank < schedule.programs.size(); ++rank) {
    const Program& p = schedule.programs[rank];
    if (p.rank != static_cast<int>(rank) || p.ranks != ranks) {
      return reject(schedule, rank, -1, fmt::format("the program is for rank {} of {}", p.rank, p.ranks));
    }
    if (p.whole != schedule.programs[0].whole) {
      return reject(schedule, rank, -1, fmt::format("the chunks are {}, unlike rank 0's", p.whole ? "whole" : "cut"));
    }
    const Program expected = frame(desc, p.rank, ranks, p.in_place, chunks);
    if (p.in_class != expected.in_class || p.out_class != expected.out_class) {
      return reject(schedule, rank, -1, "the chunks are not those of the collective");
    }
    const auto coded = [](std::uint32_t c) { return (c & kCoded) != 0; };
    if (desc.codec == Codec::None && std::ranges::any_of(p.scratch_class, coded)) {
      return reject(schedule, rank, -1, "there are coded chunks, but the call has no codec");
    }
    const Cells cells(desc.collective, p);
    for (std::uint32_t i = 0; i < p.steps.size(); ++i) {
      const std::string fault = fault_of(p, cells, i);
      if (!fault.empty()) return reject(schedule, rank, static_cast<int>(i), fault);
    }
  }
  return {};
}

}  // namespace sinew::verifier
