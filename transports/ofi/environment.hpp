#pragma once

namespace sinew::ofi {

/// libfabric 1.17 takes these from its environment only; what the user has set stays. Set while this module loads:
/// later, other threads may read the environment. false: they could not be set.
///
/// FI_OFI_RXM_USE_RNDV_WRITE: ofi_rxm's rendezvous otherwise reads remote memory, and over TCP a connection that ends
/// in the middle of such a read takes the process with it: the provider reports the read twice, the second time from
/// freed memory. FI_OFI_RXM_EAGER_LIMIT: announced messages have found their receive before their bytes leave, so short
/// ones need no second rendezvous. Long ones do: what a sender that was stopped pours out later must not gather where
/// nobody waits. FI_AV_REMOVE_CLEANUP: ofi_rxm lets go of the buffers of a stopped peer only with its connection, which
/// it closes with the peer's address only if told so.
bool environment_is_set() noexcept;

}  // namespace sinew::ofi
