#pragma once

#include "python.hpp"

namespace sinew::python {

void bind_world(nb::module_& m);
/// Config, TransportStatus, Cluster: what a World is told, and what it tells.
void bind_facts(nb::module_& m);

}  // namespace sinew::python
