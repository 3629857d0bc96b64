#include "job_messages.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/deadline.hpp>
#include <sinew/core/error.hpp>

namespace sinew::tools {
namespace {

constexpr std::chrono::seconds kPatience{5};

/// The texts of all ranks, cut after some length.
std::vector<std::string> texts_of_all(Communicator& all, const std::string& mine, const CallOptions& options = {}) {
  constexpr std::size_t kMost = 400;
  const auto ranks = static_cast<std::size_t>(all.size());
  std::vector<std::uint8_t> own(kMost), bytes(kMost * ranks);
  std::copy_n(mine.begin(), std::min(mine.size(), kMost - 1), own.begin());
  all.all_gather(own, bytes, options).get();
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r) texts.emplace_back(reinterpret_cast<const char*>(bytes.data() + r * kMost));
  return texts;
}

/// `mine` if all texts are equal, otherwise those that are not empty with their ranks.
std::string joined(const std::vector<std::string>& texts, const std::string& mine) {
  if (std::ranges::all_of(texts, [&](const std::string& text) { return text == texts.front(); })) return mine;
  std::string all;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (!texts[r].empty()) all += fmt::format("rank {}: {}", r, texts[r]);
  }
  return all;
}

}  // namespace

void say_once(Communicator& all, const std::string& text, std::FILE* to) {
  if (all.rank() == 0) std::fputs(text.c_str(), to);
  std::fflush(to);
  try {
    all.barrier({.deadline = Deadline::after(kPatience)}).get();
  } catch (const Error&) {  // another rank has something else to say
  }
}

bool any_complains(Communicator& all, const std::string& mine) {
  const std::vector<std::string> texts = texts_of_all(all, mine);
  if (std::ranges::all_of(texts, &std::string::empty)) return false;
  say_once(all, joined(texts, mine), stderr);
  return true;
}

void say_error(Communicator& all, const std::string& text) {
  try {
    say_once(all, joined(texts_of_all(all, text, {.deadline = Deadline::after(kPatience)}), text), stderr);
  } catch (const Error&) {  // the other ranks do something else
    std::fputs(text.c_str(), stderr);
  }
}

}  // namespace sinew::tools
