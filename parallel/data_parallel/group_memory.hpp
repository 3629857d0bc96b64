#pragma once

#include <cstdint>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/data_parallel/flat_group.hpp>
#include <sinew/parallel/data_parallel/held_memory.hpp>

namespace sinew::parallel {

/// The memory of one flat group, of parameters or of gradients: the whole, which may come and go, and this rank's
/// shard, which lies in the whole as long as that stays.
class GroupMemory {
 public:
  /// held: between uses. Held::Whole: the whole stays; Sharded: only the shard does, and the whole is `Underway`.
  GroupMemory(HeldMemory& from, FlatGroup group, int index, Held held, Purpose purpose);

  const FlatGroup& group() const noexcept { return group_; }
  /// The whole; makes it where it is not there.
  Buffer whole();
  bool has_whole() const noexcept { return static_cast<bool>(whole_); }
  Buffer shard() const noexcept;
  /// As exchanges have it: on a device the shard is the host's, and its place in the whole stands for it.
  Buffer traveling_shard();
  /// To that place, and back, which waits. On the host nothing.
  void send_up();
  void bring_down();
  /// Where parameter number `member` of the group lies in the whole.
  Buffer part(std::size_t member, std::int64_t elements);
  /// Frees the whole, and what was kept of it.
  void free_whole();
  /// Frees the whole but for part `index` of so many, which are equal. Does nothing where there is no whole.
  void keep_part(int index, int count);
  Buffer kept_part() const noexcept { return part_.buffer(); }

 private:
  bool is_apart() const noexcept { return shard_ && from_->copies().on_device(); }

  HeldMemory* from_;
  FlatGroup group_;
  int index_;
  HeldMemory::Piece whole_, shard_, part_;
};

}  // namespace sinew::parallel
