#include <algorithm>

#include <sinew/topology/format/json/json_fields.hpp>
#include <sinew/topology/model/field_error.hpp>

namespace sinew::json_fields {

Json parse(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    std::string_view what(error.what());  // "[json.exception.parse_error.101] parse error at line 1, ...: details"
    if (const std::size_t end = what.find("] parse error at "); end != std::string_view::npos)
      what.remove_prefix(end + 17);
    throw Error(Code::InvalidArgument, fmt::format("not JSON: {}", what));
  } catch (const nlohmann::json::exception& error) {  // a number that no double holds
    std::string_view what(error.what());
    if (const std::size_t end = what.find("] "); end != std::string_view::npos) what.remove_prefix(end + 2);
    throw Error(Code::InvalidArgument, fmt::format("not JSON that can be held: {}", what));
  }
}

Bytes bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(first, first + text.size());
}

std::string_view text_of(const Bytes& bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Reader::path_of(std::string_view key) const {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

void Reader::list_unknown() const {
  if (unknown == nullptr) return;
  for (const auto& [key, value] : in.items()) {
    if (std::ranges::find(fields_read, key) == fields_read.end()) unknown->push_back(path_of(key));
  }
}

void reject(const std::string& path, std::string_view expected, const Json& found) {
  constexpr std::size_t kLongest = 40;
  std::string shown =
      found.is_structured() ? found.type_name() : found.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (shown.size() > kLongest) shown = shown.substr(0, kLongest) + "...";
  throw FieldError(path, fmt::format("expected {}, found {}", expected, shown));
}

void reject_absent(const std::string& path, std::string_view key) {
  throw FieldError(path, fmt::format("expected a member \"{}\"", key));
}

}  // namespace sinew::json_fields
