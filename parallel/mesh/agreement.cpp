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
namespace {

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

}  // namespace

std::uint64_t hash_of(std::string_view bytes) { return std::hash<std::string_view>{}(bytes); }

void require_equal_on_all(Communicator& all, std::string_view what, const std::string& text,
                          const CallOptions& options) {
  const std::uint64_t hash = hash_of(text);
  std::array<std::uint64_t, 2> ends{hash, ~hash};
  all.all_reduce(ends, ReduceOp::Max, options).get();  // the largest, and the complement of the smallest
  if (ends[0] == ~ends[1]) return;
  const std::vector<std::string> texts = texts_of_all(all, text, options);
  const auto other = std::ranges::find_if(texts, [&](const std::string& t) { return t != texts[0]; });
  const int rank = static_cast<int>(other - texts.begin());
  throw Error(
      Code::InvalidArgument,
      fmt::format("{}: rank 0 has '{}', rank {} '{}'; expected the same on all ranks", what, texts[0], rank, *other),
      rank);
}

}  // namespace sinew::parallel
