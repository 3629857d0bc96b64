#include <algorithm>
#include <cstring>
#include <string>

#include <sinew/parallel/checkpoint/save_report.hpp>

namespace sinew::parallel {
namespace {

constexpr std::size_t kHeadWords = 3;  // code, rank, length of the text
constexpr std::size_t kMostTextBytes = (kStatusWords - kHeadWords) * sizeof(std::uint64_t);

}  // namespace

StatusWords words_of(const Status& status) {
  StatusWords words{};
  const std::size_t length = std::min(status.message().size(), kMostTextBytes);
  words[0] = static_cast<std::uint64_t>(status.code());
  words[1] = static_cast<std::uint64_t>(std::int64_t{status.rank()});
  words[2] = length;
  if (length > 0) std::memcpy(words.data() + kHeadWords, status.message().data(), length);
  return words;
}

Status status_from(std::span<const std::uint64_t, kStatusWords> words) {
  if (words[0] == static_cast<std::uint64_t>(Code::Ok)) return {};
  const std::size_t length = std::min<std::size_t>(words[2], kMostTextBytes);
  std::string text(length, '\0');
  if (length > 0) std::memcpy(text.data(), words.data() + kHeadWords, length);
  return {static_cast<Code>(words[0]), std::move(text), static_cast<int>(static_cast<std::int64_t>(words[1]))};
}

}  // namespace sinew::parallel
