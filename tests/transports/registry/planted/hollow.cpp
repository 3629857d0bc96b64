// The name of an entry, but nothing in it.
#include <sinew/core/module_entry.hpp>

extern "C" __attribute__((visibility("default"))) const sinew::ModuleEntry sinew_module_entry;
const sinew::ModuleEntry sinew_module_entry = {nullptr, nullptr};
