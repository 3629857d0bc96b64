#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/agreement.hpp>

namespace sinew::parallel {
std::vector<std::string> texts_of_all(Communicator& all, const std::string& text, const CallOptions& options) {
  const std::array<std::uint64_t, 1> length{text.size()};
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(all.size()));
  all.all_gather(length, lengths, options).get();
  std::string joined(std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}), '\0');
  all.all_gather_v(text, joined, Parts{lengths}, options).get();
  std::vector<std::string> texts;
  for (std::size_t at = 0; const std::size_t n : lengths) {
    texts.push_back(joined.substr(at, n));
    at += n;
  }
  return texts;
}

std::uint64_t hash_of(std::string_view bytes) { return std::hash<std::string_view>{}(bytes); }

std::optional<Difference> difference_on(Communicator& all, std::string_view what, const std::string& text,
                                        const CallOptions& given, const std::vector<int>& numbers) {
  const std::string label = fmt::format("agreement on {}", what);
  CallOptions options = given;
  if (options.label == nullptr) options.label = label.c_str();
  const std::uint64_t hash = hash_of(text);
  std::array<std::uint64_t, 2> ends{hash, ~hash};
  all.all_reduce(ends, ReduceOp::Max, options).get();  // the largest, and the complement of the smallest
  if (ends[0] == ~ends[1]) return {};
  const std::vector<std::string> texts = texts_of_all(all, text, options);
  Difference found = difference_of(texts, all.rank());
  const auto odd = static_cast<std::size_t>(found.rank);
  const auto usual = static_cast<std::size_t>(
      std::ranges::find_if(texts, [&](const std::string& t) { return t != texts[odd]; }) - texts.begin());
  const auto rank_text = [&](std::size_t r) { return all.rank_text(static_cast<int>(r)); };
  found.rank = numbers.empty() ? static_cast<int>(odd) : numbers[odd];
  found.text = fmt::format("{}: {} has '{}', {} '{}'; expected the same on all ranks", what, rank_text(usual),
                           texts[usual], rank_text(odd), texts[odd]);
  return found;
}

void require_equal_on_all(Communicator& all, std::string_view what, const std::string& text,
                          const CallOptions& options) {
  const auto found = difference_on(all, what, text, options);
  if (found) throw Error(Code::InvalidArgument, found->text, found->rank);
}

int who_stops(Mesh& mesh, const std::vector<std::string>& groups, bool fault, int differs, const CallOptions& options) {
  constexpr int kFault = 64;       // more groups than any mesh has
  constexpr int kRanks = 1 << 24;  // of several ranks the lowest
  const int weight = fault ? kFault : std::min(differs, kFault - 1);
  std::array<std::int32_t, 1> stopping{weight == 0 ? -1 : weight * kRanks + (kRanks - 1 - mesh.rank())};
  take_largest(std::span<std::int32_t>(stopping), groups, mesh, options);
  return stopping[0] < 0 ? -1 : kRanks - 1 - stopping[0] % kRanks;
}

}  // namespace sinew::parallel
