#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt {

/// Bytes to learn from, and which of them a step reads.
class Text {
 public:
  /// Errors: InvalidArgument naming the file that cannot be read, with the system's reason.
  explicit Text(const std::string& file) : Text(std::vector<std::string>{file}) {}
  /// One after the other.
  explicit Text(const std::vector<std::string>& files);
  /// These bytes; `name` is for errors.
  Text(std::string name, std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)), name_(std::move(name)) {}

  /// Which sequences: those of a step, each of context + 1 bytes from anywhere in the text.
  struct Which {
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    int context = 0;
  };
  /// Sequences [first, first + count) of a step's batch, one after the other. They depend on nothing else: whichever
  /// rank asks for them, the batch is the same.
  /// Errors: InvalidArgument where the text is shorter than a sequence.
  std::vector<std::uint8_t> sequences(const Which& which, std::int64_t first, std::int64_t count) const;

  /// The file, or the folder of several.
  const std::string& name() const noexcept { return name_; }
  std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(bytes_.size()); }
  /// Of all bytes: the same on ranks that have the same.
  std::size_t hash() const noexcept {
    return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes_.data()), bytes_.size()});
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::string name_;
};

/// The licence texts that a Debian system has, /usr/share/common-licenses, by name; links to another one are left out.
/// Errors: InvalidArgument where there are none, with what to do.
Text licence_texts();

}  // namespace gpt
