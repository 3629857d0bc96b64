#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/awaited_work.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/placement/parts_collectives.hpp>
#include <sinew/parallel/placement/shard_arithmetic.hpp>
#include <sinew/parallel/tensor/exchange.hpp>

namespace sinew::parallel {
namespace {

std::vector<Box> boxes_of(TensorSpec tensor, const std::string& axis, const Placement& placement, int ranks) {
  const Factorisation group({{axis, ranks}});
  tensor.placements = Placements({{axis, placement}});
  require_valid(tensor, group);
  return boxes_along(tensor, axis, group, 0);
}

/// Parts of whole leading rows lie one behind the other.
bool cuts_inside(const Placement& placement) {
  const auto* shard = std::get_if<Shard>(&placement);
  return shard != nullptr && shard->dim > 0;
}

bool are_equal(const Counts& counts) {
  return std::ranges::all_of(counts, [&](std::uint64_t n) { return n == counts.front(); });
}

}  // namespace

Exchange::Exchange(CallGroup group, std::string what, std::string axis, TensorSpec tensor, Placement from, Placement to,
                   const ComputeDevice& device)
    : group_(group),
      what_(std::move(what)),
      axis_(std::move(axis)),
      label_(fmt::format("{} of {}", what_, tensor.name)),
      tensor_(std::move(tensor)),
      from_(std::move(from)),
      to_(std::move(to)),
      device_(device),
      in_(boxes_of(tensor_, axis_, from_, GroupPlace(group).ranks)),
      out_(boxes_of(tensor_, axis_, to_, GroupPlace(group).ranks)),
      kind_(kind_of_placements()) {
  if (in_.size() == 1) kind_ = Kind::Copy;
  const std::vector<Box>& parts = kind_ == Kind::ReduceScatter ? out_ : in_;
  switch (kind_) {
    case Kind::Copy:
    case Kind::AllReduce:
    case Kind::Keep: return;
    case Kind::AllGather:
    case Kind::ReduceScatter:
      counts_ = counts_of(parts);
      packed_ = cuts_inside(kind_ == Kind::AllGather ? from_ : to_);
      if (packed_ && kind_ == Kind::AllGather) got_room_ = PlacedArray<std::byte>(device_, bytes(out_[me()]));
      if (packed_ && kind_ == Kind::ReduceScatter) sent_room_ = PlacedArray<std::byte>(device_, bytes(in_[me()]));
      break;
    case Kind::AllToAll:
      for (std::size_t r = 0; r < in_.size(); ++r) {
        sends_.push_back(static_cast<std::uint64_t>(intersection(in_[me()], out_[r]).elements()));
        counts_.push_back(static_cast<std::uint64_t>(intersection(in_[r], out_[me()]).elements()));
      }
      sent_room_ = PlacedArray<std::byte>(device_, in_bytes());
      got_room_ = PlacedArray<std::byte>(device_, out_bytes());
      packed_ = true;
      break;
  }
  even_ = are_equal(counts_);
}

Exchange::Kind Exchange::kind_of_placements() const {
  const bool from_whole = std::holds_alternative<Replicate>(from_), to_whole = std::holds_alternative<Replicate>(to_);
  const bool from_shard = std::holds_alternative<Shard>(from_), to_shard = std::holds_alternative<Shard>(to_);
  if (from_whole && to_whole) return Kind::Copy;
  if (from_whole && to_shard) return Kind::Keep;
  if (from_shard && to_whole) return Kind::AllGather;
  if (from_shard && to_shard) return Kind::AllToAll;
  if (to_whole) return Kind::AllReduce;
  if (to_shard) return Kind::ReduceScatter;
  complain(fmt::format("there is no way from {} to {}", to_string(from_), to_string(to_)));
}

void Exchange::complain(const std::string& why) const {
  throw Error(Code::InvalidArgument, fmt::format("{} of {} along {} on {}: {}", what_, tensor_.to_string(), axis_,
                                                 group_->rank_text(static_cast<int>(me())), why));
}

void Exchange::require(const PlacedInput& in, Buffer out) const {
  if (in.placement != from_)
    complain(fmt::format("expected {}, found {}{}", to_string(from_), to_string(in.placement),
                         std::holds_alternative<Partial>(in.placement) ? ": a sum over the ranks is missing" : ""));
  if (in.data.bytes != in_bytes())
    complain(fmt::format("an input of {} bytes, expected {}", in.data.bytes, in_bytes()));
  if (out.bytes != out_bytes()) complain(fmt::format("an output of {} bytes, expected {}", out.bytes, out_bytes()));
  if (underway_) complain("it is still under way; expected get() of the last time first");
}

std::size_t Exchange::sent_bytes() const noexcept {
  const std::size_t ranks = in_.size();
  switch (kind_) {
    case Kind::Copy:
    case Kind::Keep: return 0;
    case Kind::AllReduce: return 2 * in_bytes() * (ranks - 1) / ranks;
    case Kind::AllGather: return out_bytes() * (ranks - 1) / ranks;
    case Kind::ReduceScatter: return in_bytes() * (ranks - 1) / ranks;
    case Kind::AllToAll: return in_bytes() - bytes(intersection(in_[me()], out_[me()]));
  }
  return 0;
}

Exchange::Underway Exchange::start(const PlacedInput& in, Buffer out, const CallOptions& options) {
  require(in, out);
  ConstBuffer from = in.data;
  from.place = out.place = place_of(device_);
  Work work = begin(from, out, in_order(device_, group_.options(label_.c_str(), options)));
  underway_ = true;
  return {this, std::move(work), out};
}

Work Exchange::begin(ConstBuffer in, Buffer out, const CallOptions& options) {
  const DType dtype = tensor_.dtype;
  switch (kind_) {
    case Kind::Copy: copy(in, out); return {};
    case Kind::Keep: copy_part(in.data, in_[me()], out.data, out_[me()], out_[me()]); return {};
    case Kind::AllReduce: return group_->all_reduce(in, out, dtype, std::get<Partial>(from_).op, options);
    case Kind::AllGather:
      return gather_parts(*group_, in, packed_ ? got_room_.buffer() : out, dtype, counts_, even_, options);
    case Kind::ReduceScatter: {
      if (packed_) {
        std::byte* to = sent_room_.data();
        for (const Box& part : out_) {
          copy_part(in.data, in_[me()], to, part, part);
          to += bytes(part);
        }
        in = ConstBuffer(sent_room_.buffer());
      }
      return reduce_parts(*group_, in, out, dtype, counts_, std::get<Partial>(from_).op, even_, options);
    }
    case Kind::AllToAll: return all_to_all(in, out, options);
  }
  return {};
}

void Exchange::copy(ConstBuffer from, Buffer to) {
  if (from.data == to.data || from.bytes == 0) return;
  if (device_.exists()) {
    device_.runtime->copy_async(to, from, device_.stream);
  } else {
    std::memcpy(to.data, from.data, from.bytes);
  }
}

void Exchange::copy_part(const std::byte* from, const Box& from_box, std::byte* to, const Box& to_box,
                         const Box& part) {
  const std::size_t element = size_of(tensor_.dtype);
  if (!device_.exists()) return copy_box(from, from_box, to, to_box, part, element);
  for_each_rows(from_box, to_box, part, element, [&](const BoxRows& rows) {
    const auto extent = [&](std::size_t pitch) { return (rows.rows - 1) * pitch + rows.row_bytes; };
    const Place place = place_of(device_);
    device_.runtime->copy_rows_async(Buffer(to + rows.to, extent(rows.to_pitch), place), rows.to_pitch,
                                     ConstBuffer(from + rows.from, extent(rows.from_pitch), place), rows.from_pitch,
                                     rows.row_bytes, rows.rows, device_.stream);
  });
}

Work Exchange::all_to_all(ConstBuffer in, Buffer /*out*/, const CallOptions& options) {
  std::byte* to = sent_room_.data();
  for (const Box& theirs : out_) {
    const Box part = intersection(in_[me()], theirs);
    copy_part(in.data, in_[me()], to, part, part);
    to += bytes(part);
  }
  return group_->all_to_all_v(ConstBuffer(sent_room_.buffer()), got_room_.buffer(), tensor_.dtype, {sends_}, {counts_},
                              options);
}

void Exchange::end(Buffer out) {
  underway_ = false;
  if (!packed_ || kind_ == Kind::ReduceScatter) return;
  const std::byte* from = got_room_.data();
  for (const Box& theirs : in_) {
    const Box part = intersection(theirs, out_[me()]);
    copy_part(from, part, out.data, out_[me()], part);
    from += bytes(part);
  }
}

Exchange::Underway::~Underway() {
  if (of_ == nullptr) return;
  static_cast<void>(AwaitedWork(std::move(work_)));
  of_->underway_ = false;
}

void Exchange::Underway::get() {
  Exchange* of = std::exchange(of_, nullptr);
  if (of == nullptr) return;
  of->underway_ = false;
  work_.get();
  of->end(out_);
}

}  // namespace sinew::parallel
