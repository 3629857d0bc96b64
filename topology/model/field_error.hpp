#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

namespace sinew {

/// A field of what was read that cannot be: "nics[2].bytes_per_s: expected a number or null, found a string".
class FieldError : public Error {
 public:
  FieldError(std::string path, std::string_view problem)
      : Error(Code::InvalidArgument, fmt::format("{}: {}", path.empty() ? "top level" : path, problem)),
        path_(std::move(path)) {}

  /// "nics[2].bytes_per_s"; empty: the top level.
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace sinew
