#include <string>
#include <vector>

#include <sinew/topology/json_fields.hpp>
#include <sinew/topology/json_lines.hpp>

namespace sinew::json_fields {
namespace {

/// Reads characters and counts those it passed: the parser itself does not tell where it is.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char** furthest = nullptr;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    *furthest = ++at;
    return *this;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at == b.at; }
};

/// Follows the parser through the text and notes where the value at `path`, or the last of its holders, begins.
class LineFinder : public nlohmann::json_sax<Json> {
 public:
  LineFinder(std::string_view text, std::string_view path) : text_(text), path_(path), furthest_(text.data()) {}

  int find() {
    Json::sax_parse(CountingIterator{text_.data(), &furthest_},
                    CountingIterator{text_.data() + text_.size(), &furthest_}, this);
    return line_;
  }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(1); }
  bool number_unsigned(number_unsigned_t) override { return value(1); }
  bool number_float(number_float_t, const string_t&) override { return value(1); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override {
    value();
    levels_.push_back({here_, -1});
    return true;
  }
  bool start_array(std::size_t) override {
    value();
    levels_.push_back({here_, 0});
    return true;
  }
  bool key(string_t& name) override {
    here_ = levels_.back().path.empty() ? name : levels_.back().path + "." + name;
    note(0);
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  struct Level {
    std::string path;
    int next;  ///< of an array; -1: an object
  };

  /// `read_ahead`: characters that the parser had to read to know that the value is over.
  bool value(int read_ahead = 0) {
    if (!levels_.empty() && levels_.back().next >= 0) {
      here_ = fmt::format("{}[{}]", levels_.back().path, levels_.back().next++);
      note(read_ahead);
    }
    return true;
  }
  bool end() {
    levels_.pop_back();
    return true;
  }
  void note(int read_ahead) {
    if (!path_.starts_with(here_) || here_.size() <= longest_) return;
    if (path_.size() > here_.size() && path_[here_.size()] != '.' && path_[here_.size()] != '[') return;
    longest_ = here_.size();
    const std::string_view read(text_.data(), static_cast<std::size_t>(furthest_ - text_.data() - read_ahead));
    line_ = 1 + static_cast<int>(std::ranges::count(read, '\n'));
  }

  std::string_view text_;
  std::string_view path_;
  const char* furthest_;
  std::string here_;
  std::vector<Level> levels_;
  std::size_t longest_ = 0;
  int line_ = 1;
};

}  // namespace

int line_of(std::string_view text, std::string_view path) { return LineFinder(text, path).find(); }

}  // namespace sinew::json_fields
