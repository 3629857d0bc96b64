#pragma once

#include <string>

#include "buffers.hpp"
#include "call.hpp"
#include "python.hpp"

namespace sinew::python {

/// The element of two arrays of a call.
/// Errors: InvalidArgument if they differ.
Element same_element(const char* call, const Exported& in, const Exported& out);

/// Errors: InvalidArgument if `root` is no rank of the call's communicator.
void require_root(const Call& call, int root);

/// Does a rank that leaves its `with` block by this exception end the calls of the other ranks? It makes no more calls,
/// so they would wait for it. An exit with code 0 ends nothing.
bool ends_others(nb::handle type, nb::handle value);

/// "a with block ended by ValueError: no such file"
std::string text_of_exception(nb::handle type, nb::handle value);

}  // namespace sinew::python
