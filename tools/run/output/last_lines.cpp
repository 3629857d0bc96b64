#include "last_lines.hpp"

#include <algorithm>

namespace sinew::run {

void LastLines::take(std::string_view bytes) {
  kept_ += bytes.substr(bytes.size() - std::min(bytes.size(), kBytes));
  cut_ = cut_ || bytes.size() > kBytes || kept_.size() > kBytes;
  if (kept_.size() > kBytes) kept_.erase(0, kept_.size() - kBytes);
}

std::string LastLines::text() const {
  std::string_view all = kept_;
  if (cut_) {
    const std::size_t begin = all.find('\n');
    if (begin + 1 < all.size()) all.remove_prefix(begin + 1);  // npos + 1 is 0
  }
  std::size_t from = all.size();
  for (int line = 0; line < kLines && from != 0; ++line) {
    const std::size_t before = from < 2 ? std::string_view::npos : all.rfind('\n', from - 2);
    from = before == std::string_view::npos ? 0 : before + 1;
  }
  return std::string(all.substr(from));
}

}  // namespace sinew::run
