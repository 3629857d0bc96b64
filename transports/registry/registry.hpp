#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/fabric.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew {

/// The names of all transports in the order in which they are shown: those of this library, those that come as modules
/// with it, those in the folders of SINEW_TRANSPORT_PATH. Loads nothing. Warns of a file there that has the name of a
/// transport that every sinew has, and is therefore not used; one that may be left out of a package can be replaced.
/// Errors: Error{InvalidArgument} for a folder that is not there.
SINEW_API std::vector<std::string> module_names(const Config& config);

/// nullptr: nobody has that name. A module's file is loaded the first time it is asked for and stays; where that fails
/// the answer is a module that is not available, with the loader's reason.
SINEW_API Module* find_module(std::string_view name, const Config& config);

/// The modules of this library whose offloads take memory of devices alone.
SINEW_API std::span<const std::string_view> device_offload_names() noexcept;

/// Does SINEW_TLS cover what it carries between hosts, or carries it nothing there? false of modules from elsewhere.
SINEW_API bool is_covered_by_tls(std::string_view name);

/// Why a World leaves this one alone unless it is asked for by name; empty: it does not, or it is not in this package.
SINEW_API std::string left_alone(std::string_view name, const Config& config);

/// The accelerators of this machine, for one World.
/// Errors: Error{Unavailable} with the reason why there are none.
SINEW_API std::unique_ptr<DeviceRuntime> make_device_runtime();

}  // namespace sinew
