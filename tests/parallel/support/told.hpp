#pragma once

#include <string>
#include <string_view>

namespace sinew::parallel::test {

/// Whether a text says that `rank` of the World aborted something because its call was refused: `refusal` begins the
/// text of that error. A rank that passed it on has added nothing.
inline bool tells_of_refusal(const std::string& text, int rank, std::string_view refusal) {
  constexpr std::string_view kAborted = " aborted ";
  const std::size_t first = text.find(kAborted);
  return text.starts_with("rank " + std::to_string(rank) + " ") && first != std::string::npos &&
         first == text.rfind(kAborted) && text.find(": " + std::string(refusal)) != std::string::npos;
}

}  // namespace sinew::parallel::test
