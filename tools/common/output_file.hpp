#pragma once

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>

namespace sinew::tools {

/// A file that an option names; "-" is standard output. The constructor opens the file, so that nothing is computed in
/// vain for a file that cannot be written. A file that the constructor made is removed if nothing is written into it.
/// Errors: Error{InvalidArgument} from the constructor if the file cannot be written;
///         Error{System} from write() if some of the text was lost.
class OutputFile {
 public:
  /// `option`: such as "--svg". `name`: empty where the option was not given.
  OutputFile(std::string_view option, std::string name);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  bool wanted() const noexcept { return !name_.empty(); }
  bool is_standard_output() const noexcept { return name_ == "-"; }
  /// Writes the whole file, and replaces what it held.
  void write(const std::string& text);
  /// The same for a text that is too long for memory: `text` writes it to the stream that it gets.
  void write(const std::function<void(std::ostream&)>& text);

 private:
  friend bool leaves_standard_output(std::initializer_list<const OutputFile*> files, bool json);

  std::string option_;
  std::string name_;
  bool made_ = false;  // and nothing is in it
};

/// Whether standard output is free for the usual text, because none of the files is "-".
/// Errors: Error{InvalidArgument} if two of the files are "-", if one is and `json` is set, or if two names mean one
///         file.
bool leaves_standard_output(std::initializer_list<const OutputFile*> files, bool json);

}  // namespace sinew::tools
