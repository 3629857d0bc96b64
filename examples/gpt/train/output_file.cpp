#include "output_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

namespace gpt {

namespace {

void put(const std::string& name, const std::string& content, std::ios::openmode mode) {
  errno = 0;
  std::ofstream out(name, mode);
  out << content << std::flush;
  if (!out) throw sinew::Error(sinew::Code::System, fmt::format("cannot write '{}': {}", name, std::strerror(errno)));
}

}  // namespace

void require_writable(const std::string& name) { put(name, "", std::ios::app); }

void write_file(const std::string& name, const std::string& content) { put(name, content, std::ios::trunc); }

}  // namespace gpt
