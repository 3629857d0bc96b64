#include "checks.hpp"

#include <fmt/format.h>

#include "errors.hpp"
#include "python.hpp"

namespace sinew::python {

Element same_element(const char* call, const Exported& in, const Exported& out) {
  const Element element = in.element();
  if (out.element() != element) {
    const auto name = [](Element e) {
      return fmt::format("{}{}", e.lanes == 1 ? "" : "complex of ", numpy_name(e.dtype));
    };
    reject(call, fmt::format("the arrays have the dtypes {} and {}, expected equal ones", name(element),
                             name(out.element())));
  }
  return element;
}

void require_root(const Call& call, int root) {
  const int size = call.members().size();
  if (root < 0 || root >= size) reject(call.name(), fmt::format("root is {}, expected 0 to {}", root, size - 1));
}

bool ends_others(nb::handle type, nb::handle value) {
  if (type.is_none()) return false;
  if (PyErr_GivenExceptionMatches(type.ptr(), PyExc_SystemExit) == 0) return true;
  const nb::object code = nb::getattr(value, "code", nb::none());
  return !code.is_none() && !nb::bool_(code.equal(nb::int_(0)));
}

std::string text_of_exception(nb::handle type, nb::handle value) {
  return fmt::format("a with block ended by {}: {}", nb::cast<std::string>(nb::str(type.attr("__name__"))),
                     nb::cast<std::string>(nb::str(value)));
}

}  // namespace sinew::python
