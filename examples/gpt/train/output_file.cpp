#include "output_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

namespace gpt {

void write_file(const std::string& name, const std::string& content) {
  errno = 0;
  std::ofstream out(name, std::ios::trunc);
  out << content << std::flush;
  if (!out) throw sinew::Error(sinew::Code::System, fmt::format("cannot write '{}': {}", name, std::strerror(errno)));
}

}  // namespace gpt
