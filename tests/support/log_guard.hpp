#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/log.hpp>

namespace sinew::test {

/// Warnings and errors fail the test that wrote them, also from forked ranks; one of these says that a line is
/// expected. Takes every line of that level that contains `part` until it is destroyed; fails the test if there was
/// none.
class ExpectLog {
 public:
  ExpectLog(log::Level level, std::string part);
  ~ExpectLog();
  ExpectLog(const ExpectLog&) = delete;
  ExpectLog& operator=(const ExpectLog&) = delete;

  /// The lines taken so far.
  std::vector<std::string> lines();

 private:
  log::Level level_;
  std::string part_;
  std::vector<std::string> lines_;
};

}  // namespace sinew::test
