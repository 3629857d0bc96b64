#pragma once

#include <cstdio>
#include <string_view>

namespace example {

/// For a program's first line: whether it is only asked how it is called, which this says.
inline bool is_asked_for_usage(int argc, char** argv, const char* usage) {
  if (argc < 2 || (std::string_view(argv[1]) != "--help" && std::string_view(argv[1]) != "-h")) return false;
  std::printf("usage: %s\n", usage);
  return true;
}

}  // namespace example
