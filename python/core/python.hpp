#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/chrono.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

// Every file includes nanobind by this header alone. A file that lacks one of the casters would compile to other
// functions of the same names, and the linker takes any of them.

namespace sinew::python {

namespace nb = nanobind;

}  // namespace sinew::python
