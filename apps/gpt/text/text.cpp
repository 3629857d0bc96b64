#include "text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/keyed_random.hpp>

namespace gpt {
namespace {

constexpr const char* kLicences = "/usr/share/common-licenses";

[[noreturn]] void complain(const std::string& what) {
  throw sinew::Error(sinew::Code::InvalidArgument, "text: " + what);
}

}  // namespace

Text::Text(const std::vector<std::string>& files) : name_(files.size() == 1 ? files.front() : kLicences) {
  for (const std::string& file : files) {
    std::error_code none;
    if (std::filesystem::is_directory(file, none)) complain(fmt::format("cannot read '{}': Is a directory", file));
    errno = 0;
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(in), {}};
    if (!in.is_open() || in.bad()) complain(fmt::format("cannot read '{}': {}", file, std::strerror(errno)));
    bytes_.insert(bytes_.end(), content.begin(), content.end());
  }
}

std::vector<std::uint8_t> Text::sequences(const Which& which, std::int64_t first, std::int64_t count) const {
  constexpr int kBatchBits = 30;  // sequences of a step: fewer than two to the power of that
  const auto length = static_cast<std::int64_t>(which.context) + 1;
  if (bytes() < length)
    complain(fmt::format("'{}' has {} bytes, expected {} at least: a sequence and the byte after it", name_, bytes(),
                         length));
  const sinew::parallel::KeyedRandom random(which.seed, "order of the data");
  std::vector<std::uint8_t> out;
  for (std::int64_t s = first; s < first + count; ++s) {
    const auto number = (static_cast<std::uint64_t>(which.step) << kBatchBits) | static_cast<std::uint64_t>(s);
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(
                                            random.below(number, static_cast<std::uint64_t>(bytes() - length + 1)));
    out.insert(out.end(), begin, begin + length);
  }
  return out;
}

Text licence_texts() {
  std::vector<std::string> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kLicences, none)) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path().string());
  }
  if (files.empty())
    complain(fmt::format("there are no licence texts in {}: expected --data FILE with a text of your own", kLicences));
  std::ranges::sort(files);
  return Text(files);
}

}  // namespace gpt
