#pragma once

#include <string>
#include <string_view>

namespace sinew::parallel::test {

/// Whether a text says, once, that World rank `rank` aborted because its call was refused. `refusal` is how the
/// refusal's text begins. A rank that forwarded the abort must not have added anything.
inline bool tells_of_refusal(const std::string& text, int rank, std::string_view refusal) {
  constexpr std::string_view kAborted = " aborted ";
  const std::size_t first = text.find(kAborted);
  return text.starts_with("rank " + std::to_string(rank) + " ") && first != std::string::npos &&
         first == text.rfind(kAborted) && text.find(": " + std::string(refusal)) != std::string::npos;
}

}  // namespace sinew::parallel::test
