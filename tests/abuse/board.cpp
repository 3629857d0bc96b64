#include "board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::abuse {

Board& map_board(const std::string& file, bool create) {
  const FileDescriptor fd(::open(file.c_str(), (create ? O_CREAT | O_EXCL : 0) | O_RDWR | O_CLOEXEC, 0600));
  if (!fd || (create && ::ftruncate(fd.get(), sizeof(Board)) != 0)) throw_errno("the board " + file);
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) throw_errno("mapping the board " + file);
  return *static_cast<Board*>(memory);
}

void tell(RankLine& line, const Error& e) {
  line.returned_ns = now_ns();
  line.lost = e.rank();
  line.code = static_cast<std::int32_t>(e.code());
  const std::string text = e.what();
  std::copy_n(text.begin(), std::min(text.size(), line.said.size() - 1), line.said.begin());
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace sinew::abuse
