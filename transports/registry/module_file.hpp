#pragma once

#include <filesystem>
#include <string_view>

#include <sinew/core/fabric.hpp>

namespace sinew {

/// Where the modules of this library are: beside it, wherever it was installed or moved to.
std::filesystem::path module_folder();

/// The module of a file, loaded once per process and never unloaded. What cannot be loaded is a module that is not
/// available: no such file, the loader's words, no entry, another ABI, another name.
Module& load_module(std::string_view name, const std::filesystem::path& file);

}  // namespace sinew
