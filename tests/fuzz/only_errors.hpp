#pragma once

#include <cstdlib>
#include <string_view>

#include <sinew/core/error.hpp>

namespace sinew::test {

/// Bytes may be refused by an Error that says something, and by nothing else.
template <class Call>
void only_errors(Call call) {
  try {
    call();
  } catch (const Error& e) {
    if (std::string_view(e.what()).empty()) std::abort();
  }
}

}  // namespace sinew::test
