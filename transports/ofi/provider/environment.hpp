#pragma once

namespace sinew::ofi {

/// libfabric 1.17 takes these from its environment only; what the user has set stays. Set while this module loads:
/// later, other threads may read the environment. false: they could not be set.
///
/// FI_OFI_RXM_EAGER_LIMIT: announced messages have found their receive before their bytes leave, so ofi_rxm need not
/// ask again, and must not: neither of its rendezvous is to be trusted over TCP. The one by reads takes the process
/// with it where a connection ends in the middle of a read, which the tcp provider reports twice, the second time from
/// freed memory. The one by writes tells the receives of several senders apart by the senders' numbers alone, so that
/// one is said to be over when another's data have come. Not set where there are RDMA devices. FI_AV_REMOVE_CLEANUP:
/// ofi_rxm lets go of the buffers of a stopped peer only with its connection, which it closes with the peer's address
/// only if told so.
bool environment_is_set() noexcept;

}  // namespace sinew::ofi
