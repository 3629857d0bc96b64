// A module of another time: what its entry points to must not be called.
#include <cstdlib>

#include <sinew/core/module_entry.hpp>

extern "C" __attribute__((visibility("default"))) const sinew::ModuleEntry sinew_module_entry;
const sinew::ModuleEntry sinew_module_entry = {"sinew-of-another-time",
                                               []() noexcept -> sinew::Module* { std::abort(); }};
