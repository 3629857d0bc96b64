#pragma once

#include <string>

#include <sinew/core/error.hpp>

namespace sinew::parallel::test {

/// What a call says that throws InvalidArgument; empty: it does not.
template <class Call>
std::string refusal_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    if (e.code() == Code::InvalidArgument) return e.what();
  }
  return {};
}

}  // namespace sinew::parallel::test
