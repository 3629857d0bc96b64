#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/store/store_table.hpp>

namespace sinew {

void Gathering::put(int rank, std::span<const std::byte> bytes) {
  auto& part = parts_[static_cast<std::size_t>(rank)];
  if (!part) ++came_;
  part.emplace(bytes.begin(), bytes.end());
}

std::string Gathering::absent() const {
  std::vector<int> missing;
  for (int r = 0; r < ranks(); ++r) {
    if (!has(r)) missing.push_back(r);
  }
  return name_ranks(missing);
}

std::string name_ranks(std::span<const int> ranks) {
  constexpr std::size_t kMostNamed = 16;
  const std::size_t named = std::min(ranks.size(), kMostNamed);
  std::string text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks.first(named), ", "));
  if (ranks.size() > named) text += fmt::format(" and {} more", ranks.size() - named);
  return text;
}

void StoreTable::set(std::string_view key, std::span<const std::byte> value) {
  values_.insert_or_assign(std::string(key), Bytes(value.begin(), value.end()));
}

const Bytes* StoreTable::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

std::int64_t StoreTable::add(std::string_view key, std::int64_t amount) {
  std::int64_t total = 0;
  if (const Bytes* held = find(key)) {
    if (held->size() != sizeof total) {
      throw Error(Code::InvalidArgument,
                  fmt::format("store: add to key '{}', which holds {} bytes and is no counter", key, held->size()));
    }
    std::memcpy(&total, held->data(), sizeof total);
  }
  if (__builtin_add_overflow(total, amount, &total)) {
    throw Error(Code::InvalidArgument, fmt::format("store: adding {} to counter '{}' exceeds 64 bits", amount, key));
  }
  set(key, std::as_bytes(std::span(&total, 1)));
  return total;
}

bool StoreTable::compare_and_set(std::string_view key, std::optional<std::span<const std::byte>> expected,
                                 std::span<const std::byte> desired) {
  const Bytes* held = find(key);
  const bool equal = held == nullptr ? !expected : expected && std::ranges::equal(*held, *expected);
  if (equal) set(key, desired);
  return equal;
}

bool StoreTable::erase(std::string_view key) { return drop(values_, key); }

std::shared_ptr<Gathering> StoreTable::join(std::string_view name, int rank, int ranks,
                                            std::span<const std::byte> mine) {
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks) {
    throw Error(Code::InvalidArgument, fmt::format("all-gather '{}': rank {} of {}, expected 0 <= rank < ranks <= {}",
                                                   name, rank, ranks, kMostRanks));
  }
  auto it = gatherings_.find(name);
  if (it == gatherings_.end()) it = gatherings_.emplace(std::string(name), std::make_shared<Gathering>(ranks)).first;
  std::shared_ptr<Gathering> round = it->second;
  if (round->ranks() != ranks) {
    throw Error(Code::Mismatch,
                fmt::format("all-gather '{}': rank {} says there are {} ranks, others say {}", name, rank, ranks,
                            round->ranks()),
                rank);
  }
  if (round->has(rank)) {
    throw Error(Code::Mismatch,
                fmt::format("all-gather '{}': two processes say they are rank {} of {}", name, rank, ranks), rank);
  }
  round->put(rank, mine);
  if (round->complete()) gatherings_.erase(it);
  return round;
}

void StoreTable::abandon(std::string_view name, const Gathering* round) {
  const auto it = gatherings_.find(name);
  if (it != gatherings_.end() && it->second.get() == round) gatherings_.erase(it);
}

}  // namespace sinew
