#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sinew/transports/nccl/library/nccl_api.hpp>

namespace sinew::nccl {

/// A libnccl.so.2 in this process. Never unloaded: its threads may be alive.
struct Library {
  Api api{};
  std::string file;  ///< as the loader was asked for it
  int version = 0;   ///< as version_code
};

/// `wanted` (SINEW_NCCL_LIBRARY), or if that is empty the first of libnccl.so.2 where the loader looks, and PyTorch's.
/// Errors: Error{Unavailable} with the loader's words and the places, or both versions where it is too old.
Library load_library(const std::string& wanted);

/// The libraries that pip has put beside PyTorch, in the Python folders of each prefix (/usr, a virtual environment),
/// later versions of Python first.
std::vector<std::filesystem::path> packaged_libraries(const std::vector<std::filesystem::path>& prefixes);

/// "2.28.9"
std::string version_text(int version);

}  // namespace sinew::nccl
