#pragma once

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>

namespace sinew::tools {

/// A file that an option names, "-" for standard output.
/// Errors: Error{InvalidArgument} from the constructor if it cannot be written, so that nothing is computed in vain (a
///         file that this makes goes again if nothing is written into it);
///         Error{System} from write() if what was written is not all there.
class OutputFile {
 public:
  /// `option`: "--svg". An empty name is no file at all.
  OutputFile(std::string_view option, std::string name);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  bool wanted() const noexcept { return !name_.empty(); }
  bool is_standard_output() const noexcept { return name_ == "-"; }
  /// All that goes into it; replaces what it held.
  void write(const std::string& text);
  /// The same from a function that writes to the stream that it is given, for what is too long for memory.
  void write(const std::function<void(std::ostream&)>& text);

 private:
  friend bool leaves_standard_output(std::initializer_list<const OutputFile*> files, bool json);

  std::string option_;
  std::string name_;
  bool made_ = false;  // and nothing is in it
};

/// Whether the usual text goes to standard output: not beside a file that is "-".
/// Errors: Error{InvalidArgument} if two files are, or one with --json, or if two names are of one file.
bool leaves_standard_output(std::initializer_list<const OutputFile*> files, bool json);

}  // namespace sinew::tools
