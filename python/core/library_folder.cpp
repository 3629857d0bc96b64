#include "library_folder.hpp"

#include <utility>

namespace sinew::python {
namespace {

std::string& folder() {
  static auto* const kFolder = new std::string;
  return *kFolder;
}

}  // namespace

void set_library_folder(std::string name) { folder() = std::move(name); }

bool is_library(const std::string& file) { return !folder().empty() && file.starts_with(folder()); }

}  // namespace sinew::python
