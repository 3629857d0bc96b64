#pragma once

#include <cstdint>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/data_parallel/memory/flat_group.hpp>
#include <sinew/parallel/data_parallel/memory/held_memory.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>

namespace sinew::parallel {

/// The memory of one flat group of parameters or gradients. It has two pieces: the whole group, which may be freed and
/// allocated again, and this rank's shard. If the whole stays allocated, the shard is a part of it.
class GroupMemory {
 public:
  /// held: the piece that stays allocated between uses. Held::Whole: the whole. Held::Sharded: only the shard; the
  /// whole then counts as `Underway`.
  GroupMemory(HeldMemory& from, FlatGroup group, int index, Held held, Purpose purpose);

  const FlatGroup& group() const noexcept { return group_; }
  /// The memory of the whole group. Allocates it if it does not exist.
  Buffer whole();
  bool has_whole() const noexcept { return static_cast<bool>(whole_); }
  Buffer shard() const noexcept;
  /// The shard as exchanges use it. If the shard itself is in host memory and the engine on a device, exchanges use its
  /// place in the whole.
  Buffer traveling_shard();
  /// Where a sum goes that is added to the shard: free_whole() adds it. Allocates it if it does not exist.
  Buffer added_sum();
  /// send_up() copies such a shard to its place in the whole on the device. bring_down() copies it back, and waits.
  /// Both do nothing for other shards.
  void send_up();
  void bring_down();
  /// Where parameter number `member` of the group lies in the whole.
  Buffer part(std::size_t member, std::int64_t elements);
  /// Frees the whole, and the part of it that was kept. Adds a sum that was to be added.
  void free_whole();
  /// Keeps part `index` of `count` equal parts of the whole, and frees the rest. Does nothing if there is no whole.
  void keep_part(int index, int count);
  Buffer kept_part() const noexcept { return part_.buffer(); }

 private:
  bool is_apart() const noexcept { return shard_ && from_->is_apart(); }

  HeldMemory* from_;
  FlatGroup group_;
  int index_;
  HeldMemory::Piece whole_, shard_, part_, sum_;
};

}  // namespace sinew::parallel
