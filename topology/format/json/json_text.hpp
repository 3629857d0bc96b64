#pragma once

#include <string>

namespace sinew {

/// A value (nlohmann's, ordered or not) as text; indent < 0: on one line. Names from outside may hold bytes that are
/// not UTF-8: each becomes U+FFFD.
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sinew
