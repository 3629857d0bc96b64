#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <sinew/topology/format/json/json_fields.hpp>
#include <sinew/topology/format/json/json_lines.hpp>

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

/// Follows the parser through the text and tells where each value is.
class PlaceWalker : public nlohmann::json_sax<Json> {
 public:
  using Place = std::function<void(const std::string& path, int line, bool again)>;

  PlaceWalker(std::string_view text, const Place& place)
      : text_(text), place_(place), furthest_(text.data()), counted_(text.data()) {}

  void walk() {
    Json::sax_parse(CountingIterator{text_.data(), &furthest_},
                    CountingIterator{text_.data() + text_.size(), &furthest_}, this);
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
    levels_.push_back({here_, -1, {}});
    return true;
  }
  bool start_array(std::size_t) override {
    value();
    levels_.push_back({here_, 0, {}});
    return true;
  }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    here_ = level.path.empty() ? name : level.path + "." + name;
    tell(0, !level.members.insert(name).second);
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  struct Level {
    std::string path;
    int next;  ///< of an array; -1: an object
    std::set<std::string> members;
  };

  /// `read_ahead`: characters that the parser had to read to know that the value is over.
  bool value(int read_ahead = 0) {
    if (!levels_.empty() && levels_.back().next >= 0) {
      here_ = fmt::format("{}[{}]", levels_.back().path, levels_.back().next++);
      tell(read_ahead, false);
    }
    return true;
  }
  bool end() {
    levels_.pop_back();
    return true;
  }
  void tell(int read_ahead, bool again) {
    const char* const at = std::max(counted_, furthest_ - read_ahead);
    line_ += static_cast<int>(std::count(counted_, at, '\n'));
    counted_ = at;
    place_(here_, line_, again);
  }

  std::string_view text_;
  const Place& place_;
  const char* furthest_;
  const char* counted_;  ///< newlines before it are in line_
  std::string here_;
  std::vector<Level> levels_;
  int line_ = 1;
};

}  // namespace

int line_of(std::string_view text, std::string_view path) {
  std::size_t longest = 0;
  int found = 1;
  each_place(text, [&](const std::string& here, int line, bool) {
    if (!path.starts_with(here) || here.size() <= longest) return;
    if (path.size() > here.size() && path[here.size()] != '.' && path[here.size()] != '[') return;
    longest = here.size();
    found = line;
  });
  return found;
}

void each_place(std::string_view text, const std::function<void(const std::string&, int, bool)>& place) {
  PlaceWalker(text, place).walk();
}

}  // namespace sinew::json_fields
