#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/wire.hpp>

namespace sinew::doctor {

/// Writes a list into a message: its length, then each element by `write_one`.
template <class T, class WriteOne>
void write_list(WireWriter& to, const std::vector<T>& list, WriteOne write_one) {
  to.value(static_cast<std::uint32_t>(list.size()));
  for (const T& element : list) write_one(element);
}

/// Reads such a list; `read_one` reads an element.
/// Errors: Error{Mismatch} where the message ends early.
template <class ReadOne>
auto read_list(WireReader& from, ReadOne read_one) {
  std::vector<decltype(read_one())> list;
  for (auto left = from.value<std::uint32_t>(); left > 0; --left) list.push_back(read_one());
  return list;
}

}  // namespace sinew::doctor
