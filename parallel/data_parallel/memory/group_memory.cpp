#include <utility>

#include <sinew/parallel/data_parallel/memory/group_memory.hpp>

namespace sinew::parallel {

GroupMemory::GroupMemory(HeldMemory& from, FlatGroup group, int index, Held held, Purpose purpose)
    : from_(&from), group_(std::move(group)), index_(index) {
  if (held == Held::Whole) {
    whole_ = from.take(static_cast<std::size_t>(group_.bytes()), purpose);
  } else {
    shard_ = from.take(static_cast<std::size_t>(group_.shard_bytes()), purpose);
  }
}

Buffer GroupMemory::whole() {
  if (!whole_) whole_ = from_->take(static_cast<std::size_t>(group_.bytes()), Purpose::Underway);
  return whole_.buffer();
}

Buffer GroupMemory::shard() const noexcept {
  if (shard_) return shard_.buffer();
  const auto bytes = static_cast<std::size_t>(group_.shard_bytes());
  return whole_.buffer().part(static_cast<std::size_t>(index_) * bytes, bytes);
}

Buffer GroupMemory::traveling_shard() {
  const auto bytes = static_cast<std::size_t>(group_.shard_bytes());
  return is_apart() ? whole().part(static_cast<std::size_t>(index_) * bytes, bytes) : shard();
}

Buffer GroupMemory::added_sum() {
  if (!sum_) sum_ = from_->take(static_cast<std::size_t>(group_.shard_bytes()), Purpose::Underway);
  return sum_.buffer();
}

void GroupMemory::send_up() {
  if (is_apart()) from_->copies().begin(traveling_shard(), shard());
}

void GroupMemory::bring_down() {
  if (!is_apart() || !whole_) return;
  from_->copies().begin(shard(), traveling_shard());
  from_->copies().settle();
}

Buffer GroupMemory::part(std::size_t member, std::int64_t elements) {
  const std::size_t element = size_of(group_.dtype);
  return whole().part(static_cast<std::size_t>(group_.offsets[member]) * element,
                      static_cast<std::size_t>(elements) * element);
}

void GroupMemory::free_whole() {
  if (sum_) {
    from_->copies().add(shard(), sum_.buffer(), group_.dtype);
    sum_ = {};
  }
  if (!shard_) return;
  whole_ = {};
  part_ = {};
}

void GroupMemory::keep_part(int index, int count) {
  if (!shard_ || !whole_) return;
  const std::size_t bytes = static_cast<std::size_t>(group_.bytes()) / static_cast<std::size_t>(count);
  part_ = from_->take(bytes, Purpose::Underway);
  from_->copies().begin(part_.buffer(), whole_.buffer().part(static_cast<std::size_t>(index) * bytes, bytes));
  whole_ = {};  // whoever uses this memory next does so in the order of the stream
}

}  // namespace sinew::parallel
