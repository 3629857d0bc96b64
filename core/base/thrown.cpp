#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>

#include <fmt/format.h>

#include <sinew/core/base/thrown.hpp>

namespace sinew {
namespace {

/// The demangled name of a type, or the mangled one if it cannot be demangled.
std::string readable(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed),
                                                         &std::free);
  return name ? name.get() : type.name();
}

}  // namespace

Status status_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& e) {
    return status_of(e);
  } catch (const std::string& text) {
    return {Code::System, text};
  } catch (const char* text) {
    return {Code::System, text == nullptr ? "a null string was thrown" : text};
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    return {Code::System, type == nullptr ? "something was thrown that has no C++ type"
                                          : fmt::format("an exception of type {} was thrown", readable(*type))};
  }
}

}  // namespace sinew
