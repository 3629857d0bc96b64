#include "output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

namespace sinew::tools {

OutputFile::OutputFile(std::string_view option, std::string name) : option_(option), name_(std::move(name)) {
  if (!wanted() || is_standard_output()) return;
  std::error_code unknown;
  made_ = !std::filesystem::exists(name_, unknown);
  errno = 0;
  if (std::ofstream(name_, std::ios::app)) return;
  throw Error(Code::InvalidArgument, fmt::format("{}: '{}': expected a file that can be written: {}", option_, name_,
                                                 errno != 0 ? std::strerror(errno) : "it cannot be opened"));
}

OutputFile::~OutputFile() {
  std::error_code gone;
  if (made_) std::filesystem::remove(name_, gone);
}

void OutputFile::write(const std::string& text) {
  write([&](std::ostream& to) { to << text; });
}

void OutputFile::write(const std::function<void(std::ostream&)>& text) {
  if (is_standard_output()) return text(std::cout);
  made_ = false;
  errno = 0;
  std::ofstream file(name_, std::ios::trunc);
  text(file);
  file.close();
  if (file) return;
  throw Error(Code::System, fmt::format("{}: '{}': {}; it is not all there", option_, name_,
                                        errno != 0 ? std::strerror(errno) : "a write failed"));
}

bool leaves_standard_output(std::initializer_list<const OutputFile*> files, bool json) {
  std::string first = json ? "--json" : "";
  bool is_free = true;
  for (const OutputFile* file : files) {
    const auto is_same = [&](const OutputFile* other) {
      std::error_code unknown;
      return other != file && file->wanted() && other->wanted() &&
             std::filesystem::equivalent(file->name_, other->name_, unknown);
    };
    if (const auto other = std::ranges::find_if(files, is_same); other != files.end()) {
      throw Error(Code::InvalidArgument,
                  fmt::format("{} and {}: '{}': expected two files", file->option_, (*other)->option_, file->name_));
    }
    if (!file->is_standard_output()) continue;
    if (!first.empty()) {
      throw Error(Code::InvalidArgument, fmt::format("{} and {} -: expected one of them on standard output, and the "
                                                     "other in a file",
                                                     first, file->option_));
    }
    first = file->option_ + " -";
    is_free = false;
  }
  return is_free;
}

}  // namespace sinew::tools
